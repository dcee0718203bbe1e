"""Arrays on devices and in files of bounded size: shardings, placement, memory, and what eformer has for them."""
