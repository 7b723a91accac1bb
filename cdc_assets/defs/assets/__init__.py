"""The links of the chain as software-defined assets: one subsettable op per source and layer."""
