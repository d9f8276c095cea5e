"""The cluster's half: what the API server says, asked with the rights of whoever runs this."""
