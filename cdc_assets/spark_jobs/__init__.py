"""The job that an asset would run now, for those who run Spark jobs themselves."""
