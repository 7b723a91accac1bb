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

  What the tests need of the system (MariaDB's server, Chromium, locales, a
  Java with all modules) is brought first, but for --fast. As root on Debian or
  Ubuntu: by apt-get. Without root: the same packages, unpacked below
  ~/.cache/cdc_assets/system. MySQL's server is unpacked there in any case,
  from Debian's unstable release. Where that is not possible, the tests that
  need it are skipped; the last line counts them.

  --help    Show this text. Downloads nothing.
"""
