package rotation

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Own is a CA that certplane generates for one internal purpose. It is replaced
// automatically: verifiers of its certificates read CA.Certificates where they are
// published.
type Own struct {
	// Name is the beginning of the CA's name.
	Name string
	// Lifetime is the lifetime of the CA, which is replaced after two thirds of it.
	Lifetime time.Duration
	// Propagation is how long its successor is published before it signs.
	Propagation time.Duration
}

// Next returns the CA as it has to be now, and when to call Next again. changed
// reports whether that differs from ca. The caller must have published all of
// ca.Certificates before, records that in seen, which it keeps while it runs, and must
// store the result, and publish its certificates, before it uses it. Former CAs are kept
// until they expire.
func (o Own) Next(ca CA, seen *Sightings, now time.Time, by pki.Signing) (after CA, changed bool, again time.Time, err error) {
	rules := Rules{RotateBefore: o.Lifetime / 3, Propagation: o.Propagation, Publishes: true}
	create := func() (Pair, error) { return o.create(by, now) }
	step := func(Step, CA) error { changed = true; return nil }
	if after, again, err = rules.Settle(ca, seen.See(ca.Next.certificate(), true, now), now, create, step); err != nil {
		return ca, false, now, err
	}
	if kept := unexpired(after.Former, now); len(kept) != len(after.Former) {
		after.Former, changed = kept, true
	}
	for _, cert := range after.Former {
		again = pki.Earlier(again, cert.NotAfter)
	}
	return after, changed, again, nil
}

// create generates a CA. Each CA has its own name: a client that has two keys
// for one name cannot determine which of them has signed.
func (o Own) create(by pki.Signing, now time.Time) (Pair, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return Pair{}, err
	}
	return NewRoot(by, o.Name+"@"+now.UTC().Format(time.RFC3339), key, o.Lifetime, now)
}

func unexpired(certs []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(certs), func(cert *x509.Certificate) bool { return !now.Before(cert.NotAfter) })
}
