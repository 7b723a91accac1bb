"""What `cdc test --help` prints. The launcher prints it by itself, before there is an environment."""

TEXT = """\
Usage: cdc test [--fast | --all] [PYTEST ARGUMENTS]...

  Run lint, types and the tests on real components, in parts side by side.
  With pytest arguments: only what they select, one after the other.

  cdc test                                      what CI runs
  cdc test --fast                               no service, no JVM: a minute
  cdc test --all                                all there is: hours
  cdc test cdc_assets_tests/registry -q         one folder
  cdc test -k mirror -x                         by name, until the first failure

  What the tests need of the system (MariaDB's server, Chromium, locales) is
  brought first, but for --fast. As root on Debian or Ubuntu: by apt-get.
  Without root: the same packages, unpacked below ~/.cache/cdc_assets/system.
  Where neither is possible, the tests that need it are skipped; the last line
  counts them. MySQL's server is never brought: --all takes the one on the PATH.

  --help    Show this text. Downloads nothing.
"""
