// Package lockstep_test checks the module as a whole: what its packages may import, their
// size, and what its documents say of them. The root directory has no other code.
package lockstep_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// An importRule says what one package may import, or each package of a folder where path
// ends in "/...".
type importRule struct {
	path string
	ours string // packages of this module it may import, without tests
	mods string // modules of others it may import; "" is the standard library only
}

// importRules has a rule for each package, those of lower layers first. A package without
// a rule, and an import that no rule allows, are changes of the design: change this list in
// the same commit, and state the reason.
var importRules = []importRule{
	// base: the standard library only, but for compression in the hot path of a sync, patches, Unicode's normal forms, and a table of media types
	{"internal/certerror", "", ""},
	{"internal/connlimit", "", "golang.org/x/sys"},
	{"internal/extsort", "", ""},
	{"internal/faultclock", "", ""},
	{"internal/historytest", "", ""},
	{"internal/freeport", "", ""},
	{"internal/garbage", "", ""},
	{"internal/hangup", "", ""},
	{"internal/newerstate", "", ""},
	{"internal/ondemand", "", ""},
	{"internal/iri", "", ""},
	{"internal/hashlanes", "", "github.com/klauspost/cpuid/v2 golang.org/x/sys"},
	{"internal/byteset", "", "golang.org/x/sys"},
	{"internal/mediatype", "", "github.com/gabriel-vasile/mimetype"},
	{"internal/negotiate", "", ""},
	{"internal/linkrel", "", ""},
	{"internal/private", "", ""},
	{"internal/note", "internal/private", ""},
	{"internal/lastrun", "internal/note", ""},
	{"internal/leasetime", "", ""},
	{"internal/trust", "internal/private", ""},
	{"internal/reader", "", ""},
	{"internal/ratelimit", "", ""},
	{"internal/xmlscan", "internal/byteset", ""},
	{"resourcesync/internal/schema", "", ""},
	{"resourcesync/internal/lexical", "internal/byteset internal/iri internal/xmlscan", ""},
	{"resourcesync/internal/datetime", "", ""},
	{"resourcesync/internal/digest", "internal/xmlscan", ""},
	{"resourcesync/internal/markup", "internal/xmlscan", ""},
	{"resourcesync", "internal/hashlanes internal/iri internal/xmlscan resourcesync/internal/datetime resourcesync/internal/digest resourcesync/internal/lexical resourcesync/internal/markup resourcesync/internal/schema", ""},
	{"atompmh", "internal/iri internal/xmlscan", ""},
	{"internal/fetch/dialerror", "", ""},
	{"blob", "internal/private", ""},
	{"blob/blobtest", "blob", ""},
	{"blob/faultfs", "blob", ""},
	{"blob/fence", "blob", ""},
	{"internal/handover", "blob blob/fence", ""},
	{"blob/s3", "blob internal/certerror internal/fetch/dialerror", "github.com/minio/minio-go/v7 golang.org/x/sync"},
	{"blob/s3/s3test", "", ""},
	{"internal/fetch/concurrency", "", ""},
	{"internal/fetch/http1", "", ""},
	{"internal/fetch/escape", "", ""},
	{"internal/fetch/ipclass", "", "golang.org/x/text"},
	{"internal/fetch/netrc", "", ""},
	{"internal/sleep", "", ""},
	{"internal/fetch/pace", "internal/sleep", ""},
	{"internal/fetch/shown", "internal/iri", ""},
	{"internal/fetch/requestlog", "internal/fetch/shown", ""},
	{"internal/fetch", "internal/certerror internal/fetch/concurrency internal/fetch/dialerror internal/fetch/escape internal/fetch/http1 internal/fetch/ipclass internal/fetch/netrc internal/fetch/pace internal/fetch/requestlog internal/fetch/shown internal/ondemand internal/sleep", "github.com/klauspost/compress"},
	{"internal/eventstream", "internal/fetch", ""},
	{"internal/provenance", "internal/fetch internal/fetch/shown resourcesync", ""},
	{"internal/unpack", "", "github.com/klauspost/compress golang.org/x/text"},
	{"oaipmh", "internal/xmlscan", ""},
	{"oaipmh/oaipmhtest", "oaipmh", ""},
	{"internal/chunks", "", ""},
	{"internal/chunkdelta", "internal/chunks", "github.com/klauspost/compress"},
	{"patch", "internal/chunkdelta", "github.com/klauspost/compress github.com/wI2L/jsondiff"},
	{"internal/nesting", "", ""},
	{"internal/weblink", "", ""},
	{"internal/webpage", "internal/negotiate", ""},
	{"vault", "blob internal/chunks", "github.com/klauspost/compress"},
	{"websub", "internal/weblink", "golang.org/x/net"},
	// services
	{"catalog", "resourcesync", ""},
	{"catalog/catalogtest", "catalog resourcesync", "github.com/google/go-cmp pgregory.net/rapid"},
	{"memento", "internal/hangup internal/negotiate internal/weblink", ""},
	{"memento/mementotest", "memento", "github.com/google/go-cmp"},
	{"bitstream", "catalog resourcesync blob internal/chunkdelta patch memento vault", "golang.org/x/sync"},
	{"discover", "atompmh oaipmh resourcesync internal/fetch websub internal/sleep", "golang.org/x/net"},
	{"validate/finding", "", ""},
	{"validate/opener", "validate/finding resourcesync", ""},
	{"validate/internal/tally", "internal/extsort resourcesync", ""},
	{"validate/internal/visit", "resourcesync validate/finding validate/internal/tally validate/opener", ""},
	{"validate/internal/feed", "validate/finding validate/internal/tally validate/internal/visit validate/opener atompmh internal/nesting internal/xmlscan internal/sleep", ""},
	{"validate/internal/repository", "validate/finding validate/internal/visit validate/opener internal/xmlscan oaipmh", ""},
	{"validate/internal/dump", "validate/finding validate/internal/tally validate/internal/visit validate/opener resourcesync", ""},
	{"validate", "validate/finding validate/internal/dump validate/internal/feed validate/internal/repository validate/internal/tally validate/internal/visit validate/opener atompmh resourcesync internal/nesting internal/xmlscan oaipmh internal/sleep", ""},
	{"validate/validatetest", "validate validate/finding validate/opener", ""},
	{"hub/hubstore", "websub", ""},
	{"hub/internal/address", "internal/fetch websub", ""},
	{"hub/internal/refusal", "", ""},
	{"hub/internal/limit", "hub/internal/refusal", ""},
	{"hub/internal/request", "hub/internal/address hub/internal/refusal websub", ""},
	{"hub/internal/timing", "", ""},
	{"hub/internal/publisher", "hub/internal/address hub/internal/refusal hub/internal/request hub/internal/timing internal/trust websub", ""},
	{"hub/status", "hub/hubstore hub/internal/refusal internal/hangup", "golang.org/x/sync"},
	{"hub/internal/tally", "hub/status", ""},
	{"hub/internal/accept", "hub/hubstore hub/internal/address hub/internal/limit hub/internal/publisher hub/internal/refusal hub/internal/request hub/internal/tally hub/internal/timing internal/ratelimit websub", ""},
	{"hub/internal/client", "internal/certerror internal/fetch internal/fetch/requestlog internal/fetch/shown", ""},
	{"hub/internal/group", "", ""},
	{"hub/internal/post", "hub/hubstore websub", ""},
	{"hub/internal/delivery", "hub/hubstore hub/internal/address hub/internal/client hub/internal/group hub/internal/post hub/internal/refusal hub/internal/tally hub/internal/timing hub/status internal/fetch websub", "golang.org/x/sync"},
	{"hub/internal/call", "hub/internal/address hub/internal/timing internal/ratelimit", ""},
	{"hub/internal/ping", "hub/hubstore hub/internal/address hub/internal/call hub/internal/limit hub/internal/refusal hub/internal/tally hub/internal/timing hub/status internal/fetch internal/ratelimit websub", ""},
	{"hub/internal/seal", "hub/hubstore", ""},
	{"hub/internal/verify", "hub/hubstore hub/internal/address hub/internal/call hub/internal/client hub/internal/refusal hub/internal/tally hub/internal/timing hub/status internal/fetch internal/ratelimit websub", ""},
	{"hub", "hub/hubstore hub/internal/accept hub/internal/address hub/internal/client hub/internal/delivery hub/internal/ping hub/internal/publisher hub/internal/refusal hub/internal/request hub/internal/seal hub/internal/tally hub/internal/timing hub/internal/verify hub/status", ""},
	{"hub/hubtest", "hub/hubstore", "github.com/google/go-cmp"},
	// roles
	{"intake/internal/entry", "catalog internal/iri internal/linkrel resourcesync", ""},
	{"intake/internal/filestat", "", "golang.org/x/sys"},
	{"intake/internal/pathname", "intake/internal/filestat internal/iri", "github.com/bmatcuk/doublestar/v4"},
	{"intake/internal/treewatch", "intake/internal/filestat intake/internal/pathname", "github.com/fsnotify/fsnotify"},
	{"intake/internal/listed", "catalog internal/extsort resourcesync", ""},
	{"intake/internal/chunks", "internal/private", "github.com/klauspost/compress"},
	{"intake/internal/fault", "internal/fetch", ""},
	{"intake/harvest/ledger", "", ""},
	{"intake/internal/future", "internal/fetch", ""},
	{"intake", "catalog intake/internal/entry intake/internal/fault intake/internal/listed internal/fetch internal/private resourcesync internal/sleep", ""},
	{"intake/jsonl", "catalog intake intake/internal/chunks intake/internal/entry intake/internal/filestat intake/internal/listed internal/extsort internal/fetch resourcesync internal/sleep", "golang.org/x/sync"},
	{"intake/sitemap", "catalog discover intake intake/internal/entry intake/internal/fault intake/internal/filestat intake/internal/listed internal/fetch internal/nesting resourcesync internal/sleep", "golang.org/x/sync"},
	{"intake/bucket", "blob catalog intake intake/internal/filestat intake/internal/listed intake/internal/pathname internal/mediatype resourcesync internal/sleep", "golang.org/x/sync"},
	{"intake/dir", "catalog intake intake/internal/entry intake/internal/filestat intake/internal/listed intake/internal/pathname intake/internal/treewatch internal/hashlanes internal/mediatype internal/sleep resourcesync",
		"golang.org/x/sync golang.org/x/sys"},
	{"intake/harvest/atompmh", "atompmh catalog intake intake/harvest/ledger intake/internal/entry intake/internal/fault intake/internal/future intake/internal/listed internal/fetch internal/iri internal/nesting resourcesync internal/sleep", "golang.org/x/sync"},
	{"intake/harvest/oaipmh", "catalog intake intake/internal/entry intake/internal/fault intake/internal/future intake/internal/pathname internal/fetch oaipmh resourcesync internal/sleep", "golang.org/x/sync"},
	{"intake/api", "catalog intake intake/internal/entry internal/negotiate internal/private internal/trust resourcesync", ""},
	{"intake/ledgertest", "intake/harvest/ledger", "github.com/google/go-cmp"},
	{"intake/contentstest", "intake", ""},
	{"source/internal/names", "internal/iri resourcesync", "golang.org/x/text"},
	{"source/internal/document", "blob catalog resourcesync source/internal/names", ""},
	{"source/internal/archive", "catalog internal/newerstate resourcesync source/internal/document source/internal/names", ""},
	{"source/internal/describe", "catalog internal/iri internal/linkrel memento resourcesync source/internal/document source/internal/names", "github.com/bmatcuk/doublestar/v4"},
	{"source/internal/atom", "atompmh blob catalog internal/extsort internal/newerstate resourcesync source/internal/describe source/internal/document source/internal/names", ""},
	{"source/internal/zipfile", "", "github.com/klauspost/compress"},
	{"source/internal/pack", "blob catalog resourcesync source/internal/describe source/internal/document source/internal/names source/internal/zipfile", "github.com/klauspost/compress golang.org/x/sync"},
	{"source/internal/server", "internal/connlimit", ""},
	{"source/internal/demand", "catalog internal/hangup resourcesync source/internal/describe source/internal/document source/internal/names source/internal/pack source/internal/server", ""},
	{"source/internal/notify", "catalog internal/newerstate resourcesync source/internal/describe source/internal/document source/internal/names internal/sleep", ""},
	{"source/internal/page", "atompmh internal/webpage", ""},
	{"source/internal/description", "atompmh blob resourcesync source/internal/document source/internal/names source/internal/notify source/internal/page", ""},
	{"source/internal/dump", "blob catalog internal/newerstate resourcesync source/internal/archive source/internal/describe source/internal/document source/internal/names source/internal/pack", "golang.org/x/sync"},
	{"source/internal/front", "internal/connlimit internal/negotiate", ""},
	{"source/internal/variant", "blob source/internal/names", "github.com/klauspost/compress"},
	{"source/internal/sections", "catalog resourcesync", ""},
	{"source/internal/lists", "blob catalog internal/newerstate resourcesync source/internal/archive source/internal/describe source/internal/document source/internal/names source/internal/sections source/internal/variant", "golang.org/x/sync"},
	{"source/internal/serve", "atompmh blob catalog internal/hangup internal/negotiate internal/reader memento resourcesync source/internal/demand source/internal/describe source/internal/document source/internal/names source/internal/notify source/internal/page", "github.com/klauspost/compress golang.org/x/sync"},
	{"source", "atompmh blob catalog internal/reader internal/sleep memento resourcesync source/internal/archive source/internal/atom source/internal/demand source/internal/describe source/internal/description source/internal/document source/internal/dump source/internal/front source/internal/lists source/internal/names source/internal/notify source/internal/page source/internal/serve source/internal/server source/internal/variant", ""},
	{"destination/filename", "blob", "golang.org/x/text"},
	{"destination/lock", "blob destination/filename internal/fetch internal/private", "github.com/gofrs/flock"},
	{"destination/journal", "blob resourcesync", ""},
	{"destination/journal/part", "destination/journal", ""},
	{"destination/internal/content", "blob resourcesync internal/sleep", ""},
	{"destination/internal/coding", "internal/fetch", ""},
	{"destination/internal/dump", "blob destination/internal/content internal/fetch internal/unpack resourcesync internal/sleep", ""},
	{"destination/internal/scratch", "destination/journal internal/extsort", ""},
	{"destination/internal/dispatch", "destination/filename internal/fetch", ""},
	{"destination/internal/reserve", "blob destination/filename destination/internal/content", ""},
	{"destination/internal/wording", "resourcesync", ""},
	{"destination/report", "destination/internal/wording destination/journal internal/fetch internal/fetch/shown resourcesync", ""},
	{"destination/internal/saved", "destination/filename destination/journal destination/report discover resourcesync", ""},
	{"destination/internal/desired", "destination/internal/content destination/internal/saved destination/journal internal/fetch resourcesync", ""},
	{"destination/internal/failure", "blob destination/internal/content destination/report internal/fetch", ""},
	{"destination/internal/history", "blob destination/internal/content destination/internal/failure destination/internal/saved destination/journal internal/fetch resourcesync vault", ""},
	{"destination/internal/filetime", "blob destination/journal", ""},
	{"destination/internal/localcheck", "blob destination/internal/content destination/internal/desired destination/internal/failure destination/internal/filetime destination/internal/history destination/internal/reserve destination/internal/saved destination/journal destination/report internal/fetch resourcesync", "golang.org/x/sync"},
	{"destination/internal/intent", "blob destination/internal/content destination/internal/desired destination/internal/saved destination/journal", ""},
	{"destination/internal/places", "blob destination/filename destination/internal/content destination/internal/desired destination/internal/reserve destination/internal/saved destination/journal internal/fetch resourcesync", ""},
	{"destination/internal/push", "destination/internal/desired destination/internal/saved destination/internal/wording destination/journal discover internal/fetch resourcesync", "golang.org/x/sync"},
	{"destination/internal/selection", "destination/internal/content destination/internal/desired destination/journal internal/fetch resourcesync", "github.com/bmatcuk/doublestar/v4"},
	{"destination/internal/stage", "destination/internal/content destination/internal/desired destination/internal/scratch destination/journal internal/extsort patch resourcesync", ""},
	{"destination/internal/prefetch", "destination/internal/desired destination/internal/stage", ""},
	{"destination/internal/plan", "destination/internal/content destination/internal/desired destination/journal internal/fetch patch resourcesync", ""},
	{"destination/internal/known", "destination/internal/desired destination/internal/saved destination/journal resourcesync", ""},
	{"destination/internal/entries", "destination/internal/content destination/internal/desired destination/internal/dump destination/internal/known destination/internal/plan destination/internal/prefetch destination/internal/push destination/internal/saved destination/internal/selection destination/internal/stage destination/internal/wording destination/journal discover internal/fetch internal/nesting patch resourcesync", "golang.org/x/sync"},
	{"destination/internal/outage", "destination/internal/content destination/internal/dump destination/internal/entries destination/internal/saved destination/journal discover internal/fetch resourcesync", ""},
	{"destination/internal/repeats", "destination/internal/wording", ""},
	{"destination/internal/spill", "", ""},
	{"destination/internal/inbox", "destination/internal/saved destination/journal", ""},
	{"destination/internal/outbox", "destination/journal", ""},
	{"destination/internal/writebehind", "destination/journal", ""},
	{"destination/internal/bundle", "destination/internal/plan", "golang.org/x/sync"},
	{"destination/internal/adopt", "blob destination/filename destination/internal/bundle destination/internal/content destination/internal/desired destination/internal/filetime destination/internal/plan destination/internal/saved destination/journal resourcesync", ""},
	{"destination/internal/deferral", "destination/internal/outage destination/internal/saved destination/journal internal/fetch", ""},
	{"destination/internal/follow", "destination/internal/deferral destination/internal/inbox destination/internal/push destination/internal/saved destination/internal/wording destination/internal/writebehind destination/journal destination/report discover internal/eventstream internal/fetch resourcesync websub", ""},
	{"destination/internal/planner", "destination/internal/content destination/internal/desired destination/internal/plan destination/internal/selection destination/internal/stage destination/journal resourcesync", ""},
	{"destination/internal/unsubscribe", "destination/internal/follow destination/journal destination/report internal/fetch websub", ""},
	{"destination/internal/turns", "", ""},
	{"destination/internal/transfer", "blob destination/filename destination/internal/coding destination/internal/content destination/internal/desired destination/internal/filetime destination/internal/plan destination/internal/reserve destination/internal/selection destination/internal/wording destination/journal internal/chunkdelta internal/fetch memento patch resourcesync websub destination/internal/turns", "golang.org/x/sync"},
	{"destination/internal/bulk", "destination/internal/content destination/internal/desired destination/internal/dump destination/internal/plan destination/internal/scratch destination/internal/transfer destination/internal/wording internal/extsort internal/fetch internal/unpack resourcesync", "golang.org/x/sync"},
	{"destination/share", "blob destination/internal/content destination/internal/desired destination/internal/dispatch destination/internal/plan destination/internal/transfer destination/journal internal/fetch internal/leasetime resourcesync", "golang.org/x/sync"},
	{"destination/internal/rows", "destination/internal/history destination/internal/outbox destination/journal destination/report resourcesync", ""},
	{"destination/internal/recovery", "blob destination/filename destination/internal/failure destination/internal/intent destination/internal/places destination/internal/plan destination/internal/rows destination/internal/saved destination/journal destination/report resourcesync", ""},
	{"destination/internal/apply", "blob destination/filename destination/internal/bulk destination/internal/content destination/internal/desired destination/internal/dispatch destination/internal/failure destination/internal/filetime destination/internal/history destination/internal/outbox destination/internal/places destination/internal/plan destination/internal/planner destination/internal/push destination/internal/recovery destination/internal/reserve destination/internal/saved destination/internal/transfer destination/journal destination/report destination/share internal/fetch resourcesync internal/sleep", "golang.org/x/sync"},
	{"destination/internal/counting", "destination/internal/repeats destination/report internal/fetch internal/fetch/shown", ""},
	{"destination/internal/sets", "destination/internal/counting destination/internal/push destination/internal/saved destination/internal/wording destination/journal destination/report discover internal/fetch internal/fetch/shown", ""},
	{"destination/internal/audit", "blob destination/filename destination/internal/adopt destination/internal/apply destination/internal/bundle destination/internal/content destination/internal/desired destination/internal/failure destination/internal/history destination/internal/localcheck destination/internal/plan destination/internal/planner destination/internal/reserve destination/internal/saved destination/internal/scratch destination/internal/sets destination/internal/stage destination/internal/wording destination/journal destination/report internal/extsort internal/fetch internal/fetch/shown resourcesync", ""},
	{"destination/internal/representation", "destination/internal/content destination/internal/desired destination/internal/entries destination/internal/plan destination/internal/planner destination/internal/selection destination/internal/stage destination/internal/transfer destination/journal resourcesync", ""},
	{"destination/internal/archives", "destination/internal/entries destination/internal/saved destination/internal/wording discover internal/fetch resourcesync", "golang.org/x/sync"},
	{"destination/internal/restore", "destination/internal/archives destination/internal/counting destination/internal/desired destination/internal/dump destination/internal/entries destination/internal/history destination/internal/saved destination/internal/stage destination/internal/wording destination/journal destination/report discover internal/fetch resourcesync", ""},
	{"destination/internal/pending", "destination/internal/content destination/internal/desired destination/internal/plan destination/internal/representation destination/internal/stage destination/journal destination/report resourcesync", ""},
	{"destination/internal/catchup", "destination/internal/archives destination/internal/entries destination/internal/saved destination/internal/wording resourcesync", ""},
	{"destination/internal/diff", "destination/internal/content destination/internal/desired destination/internal/stage destination/report internal/extsort resourcesync", ""},
	{"destination/internal/reconcile", "destination/filename destination/internal/adopt destination/internal/apply destination/internal/bulk destination/internal/counting destination/internal/dump destination/internal/entries destination/internal/failure destination/internal/outage destination/internal/pending destination/internal/places destination/internal/plan destination/internal/planner destination/internal/prefetch destination/internal/push destination/internal/representation destination/internal/restore destination/internal/saved destination/internal/scratch destination/internal/selection destination/internal/stage destination/internal/transfer destination/internal/wording destination/journal destination/report internal/fetch resourcesync", ""},
	{"destination/internal/harvest", "destination/internal/counting destination/internal/desired destination/internal/entries destination/internal/pending destination/internal/plan destination/internal/reconcile destination/internal/representation destination/internal/saved destination/internal/stage destination/internal/transfer destination/journal destination/report internal/fetch resourcesync", ""},
	{"destination/internal/notification", "destination/internal/counting destination/internal/desired destination/internal/entries destination/internal/follow destination/internal/inbox destination/internal/plan destination/internal/planner destination/internal/push destination/internal/saved destination/internal/stage destination/internal/wording destination/internal/writebehind destination/journal destination/report internal/fetch resourcesync", ""},
	{"destination/internal/proof", "destination/internal/entries destination/internal/saved destination/internal/wording destination/report internal/fetch internal/fetch/shown resourcesync", ""},
	{"destination/internal/reclaim", "blob destination/filename destination/internal/counting destination/internal/entries destination/internal/scratch destination/internal/sets destination/internal/stage destination/journal internal/extsort internal/fetch", ""},
	{"destination/internal/substitute", "destination/internal/dump destination/internal/entries destination/internal/outage destination/internal/restore destination/internal/saved destination/internal/wording destination/report internal/fetch internal/nesting resourcesync", ""},
	{"destination/internal/run", "destination/internal/catchup destination/internal/desired destination/internal/entries destination/internal/known destination/internal/pending destination/internal/proof destination/internal/push destination/internal/reconcile destination/internal/saved destination/internal/stage destination/internal/substitute destination/internal/wording destination/report internal/fetch resourcesync", ""},
	{"destination/internal/describe", "destination/internal/entries destination/internal/plan destination/internal/planner destination/internal/saved destination/internal/stage destination/journal", ""},
	{"destination/internal/state", "blob destination/filename destination/internal/content destination/internal/counting destination/internal/deferral destination/internal/failure destination/internal/history destination/internal/intent destination/internal/outbox destination/internal/places destination/internal/reclaim destination/internal/recovery destination/internal/rows destination/internal/saved destination/journal destination/report internal/fetch resourcesync", ""},
	{"destination/share/sharetest", "destination/share", "github.com/google/go-cmp"},
	{"destination/sink", "blob destination/internal/spill destination/report resourcesync", ""},
	{"destination", "" +
		"blob " +
		"destination/filename " +
		"destination/internal/apply " +
		"destination/internal/audit " +
		"destination/internal/content " +
		"destination/internal/counting " +
		"destination/internal/deferral " +
		"destination/internal/describe " +
		"destination/internal/desired " +
		"destination/internal/diff " +
		"destination/internal/dump " +
		"destination/internal/entries " +
		"destination/internal/failure " +
		"destination/internal/follow " +
		"destination/internal/harvest " +
		"destination/internal/history " +
		"destination/internal/inbox " +
		"destination/internal/known " +
		"destination/internal/localcheck " +
		"destination/internal/notification " +
		"destination/internal/outage " +
		"destination/internal/outbox " +
		"destination/internal/pending " +
		"destination/internal/planner " +
		"destination/internal/proof " +
		"destination/internal/push " +
		"destination/internal/reclaim " +
		"destination/internal/reconcile " +
		"destination/internal/representation " +
		"destination/internal/reserve " +
		"destination/internal/restore " +
		"destination/internal/run " +
		"destination/internal/saved " +
		"destination/internal/scratch " +
		"destination/internal/selection " +
		"destination/internal/sets " +
		"destination/internal/stage " +
		"destination/internal/state " +
		"destination/internal/substitute destination/internal/turns " +
		"destination/internal/transfer " +
		"destination/internal/unsubscribe " +
		"destination/internal/wording " +
		"destination/internal/writebehind " +
		"destination/journal " +
		"destination/report " +
		"destination/share " +
		"destination/sink " +
		"discover " +
		"internal/extsort " +
		"internal/fetch " +
		"resourcesync " +
		"vault " +
		"websub",
		""},
	{"destination/journaltest", "blob/faultfs destination/journal destination/journal/part resourcesync", "github.com/google/go-cmp"},
	{"aggregator", "blob catalog destination destination/filename destination/journal destination/report intake internal/extsort resourcesync internal/sleep", "golang.org/x/sync"},
	{"repository", "catalog internal/hangup internal/iri internal/negotiate internal/reader oaipmh resourcesync", ""},
	// storage, and what joins the roles
	{"internal/simulate", "source catalog resourcesync blob", "golang.org/x/sync"},
	{"storage/internal/column", "catalog intake/harvest/ledger memento resourcesync", ""},
	{"storage/internal/availability", "", ""},
	{"storage/internal/sqldb", "catalog destination/journal hub/hubstore intake intake/harvest/ledger internal/newerstate memento resourcesync storage/internal/availability storage/internal/column", ""},
	{"storage/sqlite", "storage/internal/sqldb internal/private", "modernc.org/sqlite"},
	{"storage/postgres", "destination/share hub/hubstore internal/leasetime storage/internal/sqldb", "github.com/jackc/pgx/v5 golang.org/x/sys"},
	{"storage/internal/tables", "storage/internal/sqldb", ""},
	{"storage/internal/examine", "catalog destination/journal memento storage/internal/column storage/internal/sqldb", ""},
	{"storage", "storage/internal/examine storage/internal/sqldb storage/internal/tables storage/postgres storage/sqlite", ""},
	{"bridge", "catalog destination destination/filename destination/journal discover intake intake/harvest/atompmh intake/harvest/ledger intake/harvest/oaipmh internal/fetch internal/private oaipmh resourcesync storage/sqlite", ""},
	{"internal/mirrordir", "blob bridge destination destination/filename destination/journal destination/lock internal/fetch/shown internal/lastrun internal/note storage/sqlite", ""},
	{"internal/statedir", "blob destination internal/private destination/journal", "github.com/gofrs/flock"},
	{"internal/statebackup", "destination destination/filename destination/journal/part internal/private internal/statedir storage storage/sqlite", ""},
	{"mirror", "blob destination destination/journal internal/fetch internal/mirrordir", ""},
	{"publish", "intake/dir internal/mediatype internal/statedir source storage/sqlite blob", ""},
	{"storage/postgres/postgrestest", "", "github.com/jackc/pgx/v5"},
	// commands
	{"cmd/lockstep/internal/logfile", "", ""},
	{"cmd/lockstep/internal/term", "cmd/lockstep/internal/logfile destination internal/fetch/shown", "github.com/spf13/pflag golang.org/x/term"},
	{"cmd/lockstep/internal/release", "", ""},
	{"cmd/lockstep/internal/sdnotify", "", ""},
	{"cmd/lockstep/internal/hangup", "", ""},
	{"cmd/lockstep/internal/help", "", "github.com/spf13/cobra github.com/spf13/pflag"},
	{"cmd/lockstep/internal/manual", "cmd/lockstep/internal/help", "github.com/spf13/cobra github.com/spf13/pflag"},
	{"cmd/lockstep/internal/completion", "cmd/lockstep/internal/help", "github.com/spf13/cobra github.com/spf13/pflag"},
	{"cmd/lockstep/internal/suggest", "", "github.com/spf13/cobra github.com/spf13/pflag"},
	{"cmd/lockstep/internal/readers", "cmd/lockstep/internal/term internal/ratelimit internal/reader internal/statedir", "golang.org/x/crypto golang.org/x/sync"},
	{"cmd/lockstep/internal/config", "cmd/lockstep/internal/help cmd/lockstep/internal/readers cmd/lockstep/internal/suggest cmd/lockstep/internal/term internal/fetch internal/linkrel internal/statedir memento resourcesync source", "github.com/spf13/cobra github.com/spf13/pflag go.yaml.in/yaml/v3"},
	{"cmd/lockstep/internal/network", "cmd/lockstep/internal/config cmd/lockstep/internal/help cmd/lockstep/internal/release cmd/lockstep/internal/term discover internal/certerror internal/fetch internal/fetch/requestlog", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/certificate", "cmd/lockstep/internal/term", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/certificate/certificatetest", "", ""},
	{"cmd/lockstep/internal/admin", "cmd/lockstep/internal/certificate cmd/lockstep/internal/term hub internal/connlimit internal/fetch internal/trust source", "github.com/prometheus/client_golang github.com/spf13/pflag golang.org/x/sync"},
	{"cmd/lockstep/internal/shell", "cmd/lockstep/internal/term", ""},
	{"cmd/lockstep/internal/alert", "cmd/lockstep/internal/admin cmd/lockstep/internal/help cmd/lockstep/internal/release cmd/lockstep/internal/shell cmd/lockstep/internal/term destination internal/certerror internal/fetch validate/finding", "github.com/prometheus/client_golang github.com/spf13/pflag"},
	{"cmd/lockstep/internal/recent", "internal/private", ""},
	{"cmd/lockstep/internal/accesslog", "cmd/lockstep/internal/admin cmd/lockstep/internal/recent cmd/lockstep/internal/term internal/ratelimit internal/reader source", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/report", "cmd/lockstep/internal/term destination destination/filename discover internal/certerror internal/fetch internal/fetch/shown resourcesync", ""},
	{"cmd/lockstep/internal/stateplace", "catalog cmd/lockstep/internal/config cmd/lockstep/internal/term destination/journal destination/journal/part destination/lock hub intake intake/harvest/ledger internal/note internal/statebackup internal/statedir memento storage storage/postgres storage/sqlite", ""},
	{"cmd/lockstep/internal/mirror", "blob blob/s3 cmd/lockstep/internal/config cmd/lockstep/internal/help cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/shell cmd/lockstep/internal/stateplace cmd/lockstep/internal/term destination destination/filename destination/journal destination/lock destination/share discover internal/fetch internal/fetch/requestlog internal/lastrun internal/mirrordir internal/note internal/private internal/statedir resourcesync source storage storage/postgres storage/sqlite", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/listen", "cmd/lockstep/internal/admin cmd/lockstep/internal/certificate cmd/lockstep/internal/term internal/connlimit internal/fetch source", ""},
	{"cmd/lockstep/internal/upstreams", "aggregator cmd/lockstep/internal/admin cmd/lockstep/internal/release destination internal/fetch/shown", ""},
	{"cmd/lockstep/internal/health", "aggregator cmd/lockstep/internal/term cmd/lockstep/internal/upstreams hub/status internal/fetch", ""},
	{"cmd/lockstep/internal/dashboard", "aggregator cmd/lockstep/internal/health cmd/lockstep/internal/recent cmd/lockstep/internal/release cmd/lockstep/internal/term cmd/lockstep/internal/upstreams hub/status internal/fetch internal/webpage", ""},
	{"cmd/lockstep/internal/hubserver", "cmd/lockstep/internal/admin cmd/lockstep/internal/config cmd/lockstep/internal/dashboard cmd/lockstep/internal/help cmd/lockstep/internal/recent cmd/lockstep/internal/release cmd/lockstep/internal/stateplace cmd/lockstep/internal/term hub hub/hubstore hub/status internal/fetch internal/private internal/statedir internal/trust storage/sqlite", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/hubflags", "cmd/lockstep/internal/config cmd/lockstep/internal/hubserver cmd/lockstep/internal/network cmd/lockstep/internal/release cmd/lockstep/internal/term internal/fetch source websub", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/webservers", "cmd/lockstep/internal/config cmd/lockstep/internal/hubflags cmd/lockstep/internal/mirror cmd/lockstep/internal/term source websub", ""},
	{"cmd/lockstep/internal/sharing", "cmd/lockstep/internal/mirror cmd/lockstep/internal/stateplace cmd/lockstep/internal/term destination destination/journal destination/share storage/postgres", ""},
	{"cmd/lockstep/internal/syncing", "cmd/lockstep/internal/alert cmd/lockstep/internal/help cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/sharing cmd/lockstep/internal/term destination internal/mirrordir", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/following", "cmd/lockstep/internal/accesslog cmd/lockstep/internal/admin cmd/lockstep/internal/alert cmd/lockstep/internal/certificate cmd/lockstep/internal/dashboard cmd/lockstep/internal/help cmd/lockstep/internal/listen cmd/lockstep/internal/mirror cmd/lockstep/internal/recent cmd/lockstep/internal/release cmd/lockstep/internal/report cmd/lockstep/internal/sdnotify cmd/lockstep/internal/sharing cmd/lockstep/internal/syncing cmd/lockstep/internal/term cmd/lockstep/internal/upstreams destination destination/lock internal/fetch internal/lastrun internal/mirrordir internal/note source", "github.com/spf13/pflag golang.org/x/sync"},
	{"cmd/lockstep/internal/tracing", "cmd/lockstep/internal/term internal/provenance", ""},
	{"cmd/lockstep/internal/validation", "aggregator cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/term cmd/lockstep/internal/tracing discover internal/fetch internal/provenance resourcesync validate validate/finding validate/opener", ""},
	{"cmd/lockstep/internal/auditing", "aggregator cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/term cmd/lockstep/internal/tracing destination internal/provenance", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/differences", "blob cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/term destination destination/journal", ""},
	{"cmd/lockstep/internal/mapping", "bridge cmd/lockstep/internal/mirror cmd/lockstep/internal/term destination/filename destination/journal destination/report internal/fetch", ""},
	{"cmd/lockstep/internal/mirrors", "aggregator blob/s3 cmd/lockstep/internal/accesslog cmd/lockstep/internal/admin cmd/lockstep/internal/alert cmd/lockstep/internal/auditing cmd/lockstep/internal/config cmd/lockstep/internal/dashboard cmd/lockstep/internal/following cmd/lockstep/internal/listen cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/recent cmd/lockstep/internal/release cmd/lockstep/internal/report cmd/lockstep/internal/sdnotify cmd/lockstep/internal/syncing cmd/lockstep/internal/term cmd/lockstep/internal/upstreams destination discover intake internal/fetch internal/garbage internal/statedir storage source storage/sqlite internal/sleep", "github.com/spf13/pflag golang.org/x/sync"},
	{"cmd/lockstep/internal/states", "cmd/lockstep/internal/stateplace cmd/lockstep/internal/term destination/lock internal/fetch internal/statebackup internal/statedir storage storage/sqlite", ""},
	{"cmd/lockstep/internal/status", "cmd/lockstep/internal/admin cmd/lockstep/internal/certificate cmd/lockstep/internal/config cmd/lockstep/internal/health cmd/lockstep/internal/hubserver cmd/lockstep/internal/mirror cmd/lockstep/internal/mirrors cmd/lockstep/internal/stateplace cmd/lockstep/internal/term cmd/lockstep/internal/upstreams destination destination/lock hub/status internal/certerror internal/fetch internal/fetch/requestlog internal/lastrun internal/mirrordir internal/statedir internal/trust storage storage/sqlite", ""},
	{"cmd/lockstep/internal/sourcereport", "cmd/lockstep/internal/term intake source websub", ""},
	{"cmd/lockstep/internal/sourcefigures", "cmd/lockstep/internal/admin cmd/lockstep/internal/recent cmd/lockstep/internal/term intake internal/fetch source", ""},
	{"cmd/lockstep/internal/baseurl", "catalog internal/statedir resourcesync", ""},
	{"cmd/lockstep/internal/explorer/spool", "", ""},
	{"cmd/lockstep/internal/explorer/figures", "cmd/lockstep/internal/explorer/spool", ""},
	{"cmd/lockstep/internal/explorer/pretty", "", ""},
	{"cmd/lockstep/internal/explorer/gate", "", ""},
	{"cmd/lockstep/internal/explorer/preview", "cmd/lockstep/internal/explorer/pretty", ""},
	{"cmd/lockstep/internal/explorer/reading", "atompmh cmd/lockstep/internal/explorer/figures cmd/lockstep/internal/explorer/spool destination/journal discover internal/fetch oaipmh resourcesync", ""},
	{"cmd/lockstep/internal/explorer/annotated", "cmd/lockstep/internal/explorer/pretty cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool internal/fetch validate validate/finding validate/opener", ""},
	{"cmd/lockstep/internal/explorer/packages", "cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool internal/fetch internal/unpack resourcesync", ""},
	{"cmd/lockstep/internal/explorer/place", "atompmh cmd/lockstep/internal/explorer/annotated cmd/lockstep/internal/explorer/packages cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool destination destination/journal discover internal/fetch oaipmh resourcesync", ""},
	{"cmd/lockstep/internal/explorer/contents", "cmd/lockstep/internal/explorer/place cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool internal/fetch internal/weblink memento resourcesync", ""},
	{"cmd/lockstep/internal/explorer/outline", "cmd/lockstep/internal/explorer/figures cmd/lockstep/internal/explorer/place cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool internal/fetch/shown internal/webpage", ""},
	{"cmd/lockstep/internal/explorer/pages", "cmd/lockstep/internal/explorer/annotated cmd/lockstep/internal/explorer/contents cmd/lockstep/internal/explorer/figures cmd/lockstep/internal/explorer/place cmd/lockstep/internal/explorer/preview cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool internal/fetch internal/webpage resourcesync", ""},
	{"cmd/lockstep/internal/explorer/compare", "blob cmd/lockstep/internal/explorer/reading cmd/lockstep/internal/explorer/spool cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/term destination destination/filename destination/journal internal/mirrordir storage/sqlite", ""},
	{"cmd/lockstep/internal/explorer", "cmd/lockstep/internal/admin cmd/lockstep/internal/explorer/compare cmd/lockstep/internal/explorer/gate cmd/lockstep/internal/explorer/outline cmd/lockstep/internal/explorer/pages cmd/lockstep/internal/explorer/place cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/term destination source storage/sqlite", "github.com/spf13/pflag"},
	{"cmd/lockstep/internal/hiddenfiles", "internal/statedir", ""},
	{"cmd/lockstep/internal/origins", "aggregator blob catalog cmd/lockstep/internal/baseurl cmd/lockstep/internal/config cmd/lockstep/internal/hiddenfiles cmd/lockstep/internal/listen cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/term destination destination/journal destination/journal/part discover intake intake/api intake/bucket intake/dir intake/harvest/atompmh intake/harvest/ledger intake/harvest/oaipmh intake/jsonl intake/sitemap internal/fetch internal/mirrordir internal/statedir internal/trust oaipmh resourcesync source storage/sqlite", ""},
	{"cmd/lockstep/internal/publishing", "cmd/lockstep/internal/config cmd/lockstep/internal/sourcereport source internal/sleep", ""},
	{"cmd/lockstep/internal/contentplace", "blob blob/fence blob/s3 cmd/lockstep/internal/config cmd/lockstep/internal/mirror cmd/lockstep/internal/term destination internal/fetch internal/handover internal/statedir", ""},
	{"cmd/lockstep/internal/versions", "bitstream catalog cmd/lockstep/internal/admin cmd/lockstep/internal/config cmd/lockstep/internal/contentplace cmd/lockstep/internal/sourcefigures cmd/lockstep/internal/sourcereport cmd/lockstep/internal/term internal/statedir memento source vault internal/sleep", ""},
	{"cmd/lockstep/internal/browse", "catalog internal/reader internal/webpage memento resourcesync", ""},
	{"cmd/lockstep/internal/overlap", "catalog cmd/lockstep/internal/term", ""},
	{"cmd/lockstep/internal/site", "aggregator bitstream blob blob/fence blob/s3 catalog cmd/lockstep/internal/accesslog cmd/lockstep/internal/admin cmd/lockstep/internal/alert cmd/lockstep/internal/baseurl cmd/lockstep/internal/browse cmd/lockstep/internal/certificate cmd/lockstep/internal/config cmd/lockstep/internal/contentplace cmd/lockstep/internal/dashboard cmd/lockstep/internal/hiddenfiles cmd/lockstep/internal/hubflags cmd/lockstep/internal/hubserver cmd/lockstep/internal/listen cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/origins cmd/lockstep/internal/overlap cmd/lockstep/internal/publishing cmd/lockstep/internal/readers cmd/lockstep/internal/recent cmd/lockstep/internal/sourcefigures cmd/lockstep/internal/sourcereport cmd/lockstep/internal/stateplace cmd/lockstep/internal/term cmd/lockstep/internal/upstreams cmd/lockstep/internal/versions discover hub intake intake/api intake/dir internal/fetch internal/mediatype internal/reader internal/statedir internal/trust memento repository resourcesync source websub internal/sleep", "github.com/spf13/pflag golang.org/x/sync"},
	{"cmd/lockstep/internal/demo", "cmd/lockstep/internal/admin cmd/lockstep/internal/auditing cmd/lockstep/internal/config cmd/lockstep/internal/hubflags cmd/lockstep/internal/hubserver cmd/lockstep/internal/listen cmd/lockstep/internal/mirror cmd/lockstep/internal/network cmd/lockstep/internal/report cmd/lockstep/internal/site cmd/lockstep/internal/sourcereport cmd/lockstep/internal/stateplace cmd/lockstep/internal/term destination internal/statedir source", ""},
	{"cmd/lockstep/internal/forward", "", ""},
	{"cmd/lockstep/internal/sharedserve", "blob/fence blob/s3 cmd/lockstep/internal/accesslog cmd/lockstep/internal/admin cmd/lockstep/internal/alert cmd/lockstep/internal/config cmd/lockstep/internal/forward cmd/lockstep/internal/hubflags cmd/lockstep/internal/hubserver cmd/lockstep/internal/mirror cmd/lockstep/internal/origins cmd/lockstep/internal/site cmd/lockstep/internal/sourcereport cmd/lockstep/internal/stateplace cmd/lockstep/internal/term source storage/postgres internal/sleep", "github.com/spf13/pflag golang.org/x/sync"},
	{"cmd/lockstep/internal/sourceflags", "cmd/lockstep/internal/config cmd/lockstep/internal/hubflags cmd/lockstep/internal/network cmd/lockstep/internal/origins cmd/lockstep/internal/site cmd/lockstep/internal/stateplace cmd/lockstep/internal/term intake/dir", "github.com/spf13/pflag"},
	{"cmd/lockstep", "*", "github.com/prometheus/client_golang github.com/spf13/cobra github.com/spf13/pflag go.yaml.in/yaml/v3 golang.org/x/term github.com/gofrs/flock golang.org/x/sync"},
	// examples: what programs of others can import, and nothing else
	{"examples/...", "destination destination/lock mirror resourcesync storage/sqlite", "modernc.org/sqlite"},
	// benchmarks: they measure everything
	{"bench/...", "*", "*"},
	// examples of deployments: their tests start what they describe
	{"deploy/...", "internal/freeport storage/postgres/postgrestest", "github.com/minio/minio-go/v7 github.com/minio/minio-go/v7/pkg/credentials go.yaml.in/yaml/v3"},
}

// A goPackage is what `go list` says of one package.
type goPackage struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
}

// module is the path of the module, which make module changes.
var module = func() string {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		panic(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "module "))
}()

func TestLayout(t *testing.T) {
	packages := list(t, "./...")
	foreign := modules(t)
	used := map[string]bool{} // rules, and "path import" for each import of this module
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if p.ImportPath == module {
			if len(p.GoFiles) > 0 {
				t.Errorf("the root directory has code: %s", strings.Join(p.GoFiles, ", "))
			}
			continue
		}
		r := ruleOf(name)
		if r == nil {
			t.Errorf("package %s has no rule in importRules", name)
			continue
		}
		used[r.path] = true
		for _, imp := range p.Imports {
			checkImport(t, name, r, imp, foreign)
			used[r.path+" "+strings.TrimPrefix(imp, module+"/")] = true
		}
	}
	for _, r := range importRules {
		if !used[r.path] {
			t.Errorf("importRules names %s, where there is no package", r.path)
		}
		for ours := range strings.FieldsSeq(r.ours) {
			if ours != "*" && !used[r.path+" "+ours] && !strings.HasSuffix(r.path, "/...") { // a folder may import less
				t.Errorf("importRules allows %s to import %s, which it does not", r.path, ours)
			}
		}
	}
}

// checkImport reports an import of package name that its rule does not allow.
func checkImport(t *testing.T, name string, r *importRule, imp string, foreign []string) {
	t.Helper()
	if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
		if !allows(r.ours, ours) && !inside(r, ours) {
			t.Errorf("%s imports %s: its rule in importRules does not allow it", name, ours)
		}
		return
	}
	for _, m := range foreign {
		if (imp == m || strings.HasPrefix(imp, m+"/")) && !allows(r.mods, m) {
			t.Errorf("%s imports %s: its rule in importRules does not allow that module", name, imp)
		}
	}
}

// inside reports whether ours is in the folder of packages that r is for.
func inside(r *importRule, ours string) bool {
	folder, ok := strings.CutSuffix(r.path, "/...")
	return ok && (ours == folder || strings.HasPrefix(ours, folder+"/"))
}

func allows(list, name string) bool {
	return list == "*" || slices.Contains(strings.Fields(list), name)
}

// ruleOf returns the rule for a package, or nil.
func ruleOf(name string) *importRule {
	for i := range importRules {
		if importRules[i].path == name || inside(&importRules[i], name) {
			return &importRules[i]
		}
	}
	return nil
}

// TestLayoutLayers checks that imports go down: a package imports only packages whose rules
// come before its own.
func TestLayoutLayers(t *testing.T) {
	t.Parallel()
	var below []string
	for _, r := range importRules {
		for _, o := range strings.Fields(r.ours) {
			if o != "*" && !slices.Contains(below, o) {
				t.Errorf("%s may import %s, whose rule does not come before its own", r.path, o)
			}
		}
		below = append(below, path.Clean(r.path))
	}
}

// list runs `go list` on the patterns.
func list(t *testing.T, patterns ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,GoFiles,Imports"}, patterns...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", withStderr(err))
	}
	var ps []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		ps = append(ps, p)
	}
}

// modules returns the paths of the modules go.mod requires.
func modules(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", withStderr(err))
	}
	var mod struct{ Require []struct{ Path string } }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var paths []string
	for _, r := range mod.Require {
		paths = append(paths, r.Path)
	}
	return paths
}

// withStderr adds what the program said to an error of exec.
func withStderr(err error) error {
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && len(ee.Stderr) > 0 {
		return errors.New(strings.TrimSpace(string(ee.Stderr)))
	}
	return err
}
