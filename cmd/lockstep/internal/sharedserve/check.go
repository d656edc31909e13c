package sharedserve

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/term"
)

// checkSite rejects what processes cannot share, among it buckets of a service that does not
// replace objects under conditions: a process that was paused could replace documents of its
// successor there. A directory has no such conditions.
func checkSite(ctx context.Context, o *site.Options) error {
	const remedy = "use --state postgres://…, and documents: s3://BUCKET/PREFIX in the configuration; or leave --shared out"
	switch {
	case !o.State.InDatabase():
		return term.Usage(fmt.Errorf("--shared: the state in %s is that of one process", o.State), remedy)
	case !mirror.IsBucket(o.Documents):
		return term.Usage(errors.New("--shared: the documents must be in a bucket"), remedy)
	case o.Contents != "" && !mirror.IsBucket(o.Contents):
		return term.Usage(errors.New("--shared: the contents must be in a bucket"), "use --contents s3://BUCKET/PREFIX; or leave --shared out")
	case o.BaseURL == "":
		return term.Usage(errors.New("--shared: the address of one process would be published as that of all"), "give the one at which clients reach all processes, as --base-url https://data.example.org/")
	case slices.ContainsFunc(o.Sets, func(c config.Set) bool { return c.Origin.Place == config.Stdin }):
		return term.Usage(errors.New("--shared: what one process reads from standard input, the others do not have"), "write it to a file, or to the API of a set from api:")
	}
	for i := range o.Sets {
		for _, store := range o.Sets[i].Stores() {
			if store != "" && !mirror.IsBucket(store) {
				return term.Usage(fmt.Errorf("--shared: set %s: store %s: the mirror must be in a bucket", o.Sets[i].Label(i), store), "write store: s3://BUCKET/PREFIX")
			}
		}
	}
	if err := checkBucket(ctx, o, o.Documents); err != nil || o.Contents == "" {
		return err
	}
	return checkBucket(ctx, o, o.Contents)
}

// checkBucket tries out whether a service honors conditions.
func checkBucket(ctx context.Context, o *site.Options, address string) error {
	b, err := mirror.OpenBucket(address, mirror.BucketClient{LookupEnv: o.IO.LookupEnv, Network: o.Network, Log: o.Log})
	if err != nil {
		return err
	}
	err = s3.CheckConditions(ctx, b)
	if errors.Is(err, s3.ErrUnconditional) {
		return term.WithHint(fmt.Errorf("--shared: %s: %w", address, err), "use a service that honors them, also at the end of multipart uploads; or run one process, without --shared")
	}
	if err != nil {
		return fmt.Errorf("--shared: try out %s: %w", address, err)
	}
	return nil
}
