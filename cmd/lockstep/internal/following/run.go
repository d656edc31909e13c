package following

import (
	"context"
	"net"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/destination"
	"lockstep/internal/fetch"
)

// Follow follows until ctx ends or the follower gives up. On l, if it is not nil, it
// serves what hubs call.
func (f *Run) Follow(ctx context.Context, follower *destination.Follower, client *fetch.Client, access *admin.Access, l net.Listener) error {
	f.follower, f.client, f.admin = follower, client, access
	about := f.about()
	serveAdmin := func(ctx context.Context) error { return f.admin.Serve(ctx, about.Admin(nil), f.o.Out.Logger(f.io)) }
	if l == nil {
		return together(ctx, f.run, f.watch, serveAdmin)
	}
	f.address = listen.BaseURL(access.Scheme(), l.Addr(), f.quietly())
	return admin.ServeBeside(ctx, f.server(about), l, f.run, f.watch, serveAdmin)
}
