"""Container Device Interface specs: what a container gets, written for the runtime to read."""
