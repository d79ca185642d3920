module github.com/certplane/certplane/test/acmesuites

go 1.26.0

replace github.com/letsencrypt/pebble/v2 => ./pebble

require (
	code.pfad.fr/check v1.1.0
	github.com/letsencrypt/pebble/v2 v2.10.1
	github.com/mholt/acmez/v3 v3.1.7
	golang.org/x/crypto v0.58.0
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
