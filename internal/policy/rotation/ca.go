package rotation

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// CA is a CA that certplane has generated, with its successor. The zero CA is
// not generated yet.
type CA struct {
	// Current signs.
	Current Pair
	// Next is to sign from TakesOver on; the zero Pair means that there is
	// none. TakesOver is Never, or zero, until the root of Next is published.
	Next      Pair
	TakesOver time.Time
	// Former are the CAs that have signed before, the latest at the end.
	Former []*x509.Certificate
	// Done is the last rotation request that was carried out.
	Done string
}

// Certificates returns the certificates of the CA that signs, the next one and
// the former ones, as far as they exist.
func (c CA) Certificates() []*x509.Certificate {
	certs := append([]*x509.Certificate{c.Current.certificate(), c.Next.certificate()}, c.Former...)
	return slices.DeleteFunc(certs, func(cert *x509.Certificate) bool { return cert == nil })
}

func (c CA) state() State {
	return State{Current: c.Current.certificate(), Next: c.Next.certificate(), TakesOver: c.TakesOver, Done: c.Done}
}

// Pair is an authority and its stored form. Without an authority the pair does not exist.
type Pair struct {
	*pki.Authority
	certPEM, keyPEM []byte
}

// NewRoot makes a self-signed CA for a key.
func NewRoot(by pki.Signing, name string, key crypto.Signer, lifetime time.Duration, now time.Time) (Pair, error) {
	root, err := pki.NewRoot(by, name, key, lifetime, now)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	return Pair{Authority: root, certPEM: pki.EncodeCertificates(root.Certificate()), keyPEM: keyPEM}, err
}

func (p Pair) certificate() *x509.Certificate {
	if p.Authority == nil {
		return nil
	}
	return p.Certificate()
}

// maxSteps is how many steps one call of Settle can take.
const maxSteps = 4

// ErrUnsettled reports a CA for which each step makes another one due.
var ErrUnsettled = fmt.Errorf("it did not settle after %d steps", maxSteps)

// Settle takes the steps in the life of a CA that are due now, and returns the CA after
// them and when the next one is due. root is the publication of ca.Next: a CA that is
// prepared now is not published yet. create makes a CA. store is called with the new CA
// after each step; if it fails, the step does not count.
func (r Rules) Settle(
	ca CA, root Publication, now time.Time, create func() (Pair, error), store func(Step, CA) error,
) (after CA, again time.Time, err error) {
	for range maxSteps {
		step, at := r.Next(ca.state(), root, now)
		if step == Wait {
			return ca, at, nil
		}
		after, err := r.take(ca, step, at, create)
		if err == nil {
			err = store(step, after)
		}
		if err != nil {
			return ca, now, err
		}
		if step != Schedule && step != Hold {
			root = Publication{} // of another CA
		}
		ca = after
	}
	return ca, now, ErrUnsettled
}

// take returns the CA after a step from Next.
func (r Rules) take(ca CA, step Step, at time.Time, create func() (Pair, error)) (CA, error) {
	var err error
	switch step {
	case Make, Replace:
		ca.Current, err = create()
		ca.Next, ca.TakesOver, ca.Done = Pair{}, time.Time{}, r.Request
	case Prepare:
		ca.Next, err = create()
		ca.TakesOver, ca.Done = Never, r.Request
	case Schedule:
		ca.TakesOver = at.UTC().Truncate(time.Second)
	case Hold:
		ca.TakesOver = Never
	case TakeOver:
		ca.Former = append(slices.Clip(ca.Former), ca.Current.certificate())
		ca.Current, ca.Next, ca.TakesOver = ca.Next, Pair{}, time.Time{}
	}
	return ca, err
}

// Keys are the keys of a Secret's data under which a CA is stored. They differ
// between Secrets, as does the place of the times: stored data outlives the
// program that has stored it.
type Keys struct {
	Cert, Key         string
	NextCert, NextKey string
	// Former is empty where former CAs are not kept.
	Former string
	// TakesOver is the key of CA.TakesOver (RFC 3339). It is empty where the time
	// is kept in another place.
	TakesOver string
}

// Parse returns the CA in data, without parts that are kept elsewhere. A time that cannot
// be parsed counts as none: the next CA waits until it is set again. The errors name the
// invalid key, and show nothing of its content.
func (k Keys) Parse(data map[string][]byte) (CA, error) {
	var ca CA
	var err error
	if ca.Current, err = parsePair(data, k.Cert, k.Key); err != nil {
		return CA{}, err
	}
	if len(data[k.NextCert]) > 0 {
		if ca.Next, err = parsePair(data, k.NextCert, k.NextKey); err != nil {
			return CA{}, err
		}
	}
	if len(data[k.Former]) > 0 {
		if ca.Former, err = pki.ParseBundle(data[k.Former]); err != nil {
			return CA{}, fmt.Errorf("%s: %w", k.Former, err)
		}
	}
	if k.TakesOver != "" {
		ca.TakesOver, _ = time.Parse(time.RFC3339, string(data[k.TakesOver]))
	}
	return ca, nil
}

func parsePair(data map[string][]byte, cert, key string) (Pair, error) {
	authority, err := pki.ParseAuthority(data[cert], data[key])
	if err != nil {
		return Pair{}, fmt.Errorf("%s and %s: %w", cert, key, err)
	}
	return Pair{Authority: authority, certPEM: data[cert], keyPEM: data[key]}, nil
}

// Put keeps ca in data, in place of the one there.
func (k Keys) Put(data map[string][]byte, ca CA) {
	set := func(key string, value []byte) {
		delete(data, key)
		if len(value) > 0 {
			data[key] = value
		}
	}
	set(k.Cert, ca.Current.certPEM)
	set(k.Key, ca.Current.keyPEM)
	set(k.NextCert, ca.Next.certPEM)
	set(k.NextKey, ca.Next.keyPEM)
	if k.Former != "" {
		set(k.Former, pki.EncodeCertificates(ca.Former...))
	}
	if k.TakesOver != "" {
		delete(data, k.TakesOver)
		if ca.Next.Authority != nil {
			data[k.TakesOver] = []byte(ca.TakesOver.UTC().Format(time.RFC3339))
		}
	}
}
