"""Jobs over all sources, and the onboarding as a job per route."""
