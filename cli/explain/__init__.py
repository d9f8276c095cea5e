"""`gpuslice explain`: where its objects come from, and how an explanation is shown."""
