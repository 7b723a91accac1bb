"""What `cdc test --help` prints. The launcher prints it by itself, before there is an environment."""

TEXT = """\
Usage: cdc test [--fast | --rotate TIME | --oldest TIME | --changed | --all | --record]
       cdc test [--all | --fast] [--part NAME] PYTEST ARGUMENTS...

  Run lint, types and the core of the tests on real components, in parts side
  by side, and tell how far they are. With pytest arguments: only what they
  select, one after the other.

  cdc test                                      the core
  cdc test --rotate 10m                         what CI runs: the core, then ten minutes of what is
                                                not of it, longest waiting first [--seed N]
                                                [--within 25m: what is left of that]
  cdc test --oldest 20m                         twenty minutes of that alone [--seed N]
  cdc test --changed                            of the core what your change touches, by imports
  cdc test --fast                               no service, no JVM: a minute
  cdc test --all                                all there is: hours
  cdc test --record                             the last run's figures, for a commit
  cdc test cdc_assets_tests/registry -q         one folder
  cdc test -k mirror -x                         by name, until the first failure
  cdc test --part live                          one part: live, stack, spark, hostile, breaking, rest

  What the tests need of the system (MariaDB's server, Chromium, locales, a
  Java with all modules) is brought first, but for --fast. As root on Debian or
  Ubuntu: by apt-get. Without root: the same packages, unpacked below
  ~/.cache/cdc_assets/system. MySQL's server is unpacked there in any case,
  from Debian's unstable release. Where that is not possible, the tests that
  need it are skipped; the last line counts them.

  --help    Show this text. Downloads nothing.
"""
