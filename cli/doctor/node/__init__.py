"""The node's half: files, sockets and processes of the node that this runs on, all only read."""
