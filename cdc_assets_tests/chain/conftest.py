"""The source and platform of fakes that the definitions' tests have as well."""

from cdc_assets_tests.defs.conftest import instance as instance
from cdc_assets_tests.defs.conftest import lake_kafka as lake_kafka
from cdc_assets_tests.defs.conftest import platform as platform
from cdc_assets_tests.defs.conftest import source as source
