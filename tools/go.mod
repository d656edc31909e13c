module lockstep/tools

go 1.26.0

tool (
	github.com/polyfloyd/go-errorlint
	github.com/timakin/bodyclose
	go-simpler.org/sloglint/cmd/sloglint
)

require (
	github.com/ettle/strcase v0.2.0 // indirect
	github.com/gostaticanalysis/analysisutil v0.7.1 // indirect
	github.com/gostaticanalysis/comment v1.4.2 // indirect
	github.com/polyfloyd/go-errorlint v1.8.0 // indirect
	github.com/timakin/bodyclose v0.0.0-20260723120731-857993a2939c // indirect
	go-simpler.org/sloglint v0.12.0 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	golang.org/x/tools/go/packages/packagestest v0.1.1-deprecated // indirect
)
