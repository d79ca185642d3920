module github.com/certplane/certplane/test/browser

go 1.26.0

replace github.com/certplane/certplane => ../..

require (
	github.com/certplane/certplane v0.0.0-00010101000000-000000000000
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.8 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
)
