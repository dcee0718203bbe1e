"""Where arrays live: shardings by the names of dims, and the way from host memory to devices."""
