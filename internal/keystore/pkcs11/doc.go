// Package pkcs11 signs with private keys that never leave a token: a hardware
// security module, a smart card, SoftHSM.
//
// A token is spoken to through its vendor's library, which is C, so this
// package needs cgo. The program is built without it: one static file that
// runs anywhere. Whoever has a token builds with
//
//	CGO_ENABLED=1 go build -tags pkcs11 ./cmd/certplane
//
// A build tag and not a helper process, because a helper would be one more
// thing to run, to guard and to authenticate to: whoever can talk to it can
// sign. In other builds URIs are parsed, and refused with that command line.
package pkcs11
