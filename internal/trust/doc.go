// Package trust decides which requests may administer a process: read its status and its metrics,
// manage subscriptions, change what is published.
//
// A request is trusted for one of two reasons, and for no other:
//
//   - it arrived on the admin socket, a Unix socket that only the user who runs the process (and
//     root) can connect to; see [Listen],
//   - it carries the admin token, from whatever address; see [Tokens].
//
// The address of the peer, the Host of the request and the headers of proxies never matter. A
// reverse proxy on the same machine connects from 127.0.0.1 on behalf of anyone, and need not add a
// header that says so.
//
//	door, err := trust.Listen(ctx, "unix:/var/lib/lockstep/admin.sock")
//	guard := trust.NewGuard(tokens)
//	http.Handle("/-/metrics", guard.Protect(metrics))      // on the public listener: requires the token
//	http.Serve(door, door.Handler(guard.Protect(metrics))) // on the admin socket: open
package trust
