"""Programs of the operating system that tests need: found, installed by apt, unpacked below the cache, or told to be missing."""
