package mirror

import (
	"crypto/x509"
	"log/slog"
	"strings"

	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch/requestlog"
	"lockstep/source"
)

// bucketScheme begins the address of a bucket.
const bucketScheme = "s3://"

// IsBucket reports whether an address is that of a bucket.
func IsBucket(address string) bool { return strings.HasPrefix(address, bucketScheme) }

// A BucketClient says how requests to buckets are sent.
type BucketClient struct {
	LookupEnv func(string) (string, bool)
	Network   *network.Options // nil: the defaults
	Log       *slog.Logger     // nil: none
	Command   string           // that uses a mirror, for other processes
}

// OpenBucket returns the bucket at an address, with the credentials every
// program for buckets takes from the environment. Each of adjust may change how
// it is used.
func OpenBucket(address string, c BucketClient, adjust ...func(*s3.Options)) (*s3.Bucket, error) {
	bucket, prefix, err := s3.ParseURL(address)
	if err != nil {
		return nil, term.Usage(err, "")
	}
	var roots *x509.CertPool
	if c.Network != nil {
		if roots, err = c.Network.Certificates(); err != nil {
			return nil, err
		}
	}
	first := func(names ...string) string {
		for _, name := range names {
			if v, ok := c.LookupEnv(name); ok && v != "" {
				return v
			}
		}
		return ""
	}
	o := s3.Options{
		Endpoint: first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
		Bucket:   bucket, Prefix: prefix,
		Region:    first("AWS_REGION", "AWS_DEFAULT_REGION"),
		AccessKey: first("AWS_ACCESS_KEY_ID"), SecretKey: first("AWS_SECRET_ACCESS_KEY"), SessionToken: first("AWS_SESSION_TOKEN"),
		Attributes: source.Attributes, Transport: requestlog.Transport(s3.NewTransport(roots), c.Log, nil),
	}
	for _, f := range adjust {
		f(&o)
	}
	b, err := s3.New(o)
	if err != nil {
		return nil, term.Usage(err, "credentials are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the service from AWS_ENDPOINT_URL")
	}
	return b, nil
}

// IsBelow reports whether address is a place in a bucket below the place bucket,
// and not the same.
func IsBelow(bucket, address string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(address, "/"), strings.TrimSuffix(bucket, "/")+"/")
	return ok && rest != ""
}
