package bucket_test

const (
	set  = "https://example.org/resourcesync/main/capabilitylist.xml"
	base = "https://example.org/data/"
)
