// Package pkcs11 signs with private keys that never leave a token: a hardware
// security module, a smart card, SoftHSM.
//
// Tokens are accessed through their vendor's library, which is C, so this
// package needs cgo. By default the program is built without it, as one static
// file that runs anywhere. To use a token, build with
//
//	CGO_ENABLED=1 go build -tags pkcs11 ./cmd/certplane
//
// It is a build tag and not a helper process, because a helper would be one
// more process to run, to protect and to authenticate to: every client that can
// connect to it can sign. Other builds parse the URIs, and refuse them with
// that command line.
package pkcs11
