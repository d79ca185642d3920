module github.com/letsencrypt/pebble/v2

go 1.26.0

require github.com/letsencrypt/challtestsrv v1.4.2

require (
	github.com/miekg/dns v1.1.62 // indirect
	golang.org/x/mod v0.18.0 // indirect
	golang.org/x/net v0.27.0 // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/sys v0.22.0 // indirect
	golang.org/x/tools v0.22.0 // indirect
)
