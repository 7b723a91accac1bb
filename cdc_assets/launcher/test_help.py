"""What `cdc test --help` prints. The launcher prints it by itself, before there is an environment."""

TEXT = """\
Usage: cdc test [PYTEST ARGUMENTS]...

  Run lint, types and all tests on real components, in parts side by side.
  With pytest arguments: only what they select, one after the other.

  cdc test                                      everything
  cdc test cdc_assets_tests/registry -q         one folder
  cdc test -k mirror -x                         by name, until the first failure

  What the tests need of the system (MariaDB's server, Chromium, locales) is
  brought first. As root on Debian or Ubuntu: by apt-get. Without root: the
  same packages, unpacked below ~/.cache/cdc_assets/system. Where neither is
  possible, the tests that need it are skipped; the last line counts them.

  --help    Show this text. Downloads nothing.
"""
