"""Golden checkpoints: one of each revision and format, made up from schemas, and what each must restore as."""
