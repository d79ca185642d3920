module github.com/letsencrypt/pebble/v2

go 1.26.0

require github.com/letsencrypt/challtestsrv v1.4.2

require (
	github.com/miekg/dns v1.1.73 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
