package rollover

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
)

type bundle = certificatesv1.ClusterTrustBundle

const (
	// ManagedByLabel and ManagedBy mark the bundles that certplane publishes.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "certplane"
	// DeclaredLabel marks the bundles of signers that Signer objects declare.
	// OverlapAnnotation on them is how long they are kept if the object is
	// deleted (a duration such as 24h0m0s).
	DeclaredLabel     = "certplane.dev/declared-signer"
	OverlapAnnotation = "certplane.dev/overlap"
	// UntilAnnotation on a bundle of old roots is when it will be deleted (RFC
	// 3339).
	UntilAnnotation = "certplane.dev/trusted-until"

	// maxSize is the maximum size of a bundle in the API, in bytes.
	maxSize = 1 << 20
)

// Signer is a signer whose roots are published as trust bundles.
type Signer struct {
	// Name is the signer's name.
	Name string
	// Overlap is how long the bundle of old roots is kept beside the bundle of
	// new ones. 0 means that it is not kept.
	Overlap time.Duration
	// Exclusive means that no other client may publish bundles of this signer:
	// other bundles are deleted, as by the publisher of Kubernetes.
	Exclusive bool
	// Declared means that a Signer object declares the signer, so that it can
	// be deleted.
	Declared bool
	// Distrusted are the fingerprints of CAs whose bundles are deleted at once.
	Distrusted []string
}

// Plan lists the changes to the bundles of a signer, in this order.
type Plan struct {
	Create, Update, Delete []*bundle
	// Again is when there is more to do if nothing changes; zero if never.
	Again time.Time
}

// Idle reports whether there is nothing to do.
func (p Plan) Idle() bool { return len(p.Create)+len(p.Update)+len(p.Delete) == 0 }

// Bundles compares the existing bundles with the wanted bundle of a signer's
// current roots. content is the result of Content for these roots.
func (s Signer) Bundles(content string, existing []*bundle, now time.Time) Plan {
	var plan Plan
	wanted := s.newBundle(content)
	found := false
	for _, b := range existing {
		switch {
		case b.Spec.SignerName != s.Name:
		case b.Name == wanted.Name:
			found = true
			if fixed, changed := s.fix(b, wanted); changed {
				plan.Update = append(plan.Update, fixed)
			}
		default:
			s.retire(&plan, b, now)
		}
	}
	if !found {
		plan.Create = []*bundle{wanted}
	}
	return plan
}

// Retire is like Bundles, for a signer that has no roots any more.
func (s Signer) Retire(existing []*bundle, now time.Time) Plan {
	var plan Plan
	for _, b := range existing {
		if b.Spec.SignerName == s.Name {
			s.retire(&plan, b, now)
		}
	}
	return plan
}

// Content returns roots as the text of a bundle, without duplicates, in an order that does
// not depend on theirs. It omits certificates that are not CA certificates, which a bundle
// must not contain, and warning reports them.
func Content(roots []*x509.Certificate) (content string, warning, err error) {
	var cas []*x509.Certificate
	for _, cert := range roots {
		if !cert.IsCA || !cert.BasicConstraintsValid {
			warning = errors.Join(warning, fmt.Errorf("%s is not a CA certificate: omitted from the trust bundle", cert.Subject))
			continue
		}
		cas = append(cas, cert)
	}
	slices.SortFunc(cas, func(a, b *x509.Certificate) int { return bytes.Compare(a.Raw, b.Raw) })
	cas = slices.CompactFunc(cas, (*x509.Certificate).Equal)
	text := pki.EncodeCertificates(cas...)
	switch {
	case len(cas) == 0:
		return "", warning, errors.New("none of the roots is a CA certificate")
	case len(text) > maxSize:
		return "", warning, fmt.Errorf("the roots take %d bytes, more than the %d that a trust bundle can have", len(text), maxSize)
	}
	return string(text), warning, nil
}

func (s Signer) newBundle(content string) *bundle {
	b := &bundle{
		ObjectMeta: metav1.ObjectMeta{Name: s.bundleName(content), Labels: map[string]string{ManagedByLabel: ManagedBy}},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: s.Name, TrustBundle: content},
	}
	if s.Declared {
		b.Labels[DeclaredLabel] = "true"
		b.Annotations = map[string]string{OverlapAnnotation: s.Overlap.String()}
	}
	return b
}

// defaultOverlap is for bundles whose annotation another client has edited.
const defaultOverlap = 365 * 24 * time.Hour

// Orphan returns what to do with a bundle of an unknown signer. known means
// that all signers have been read; otherwise the bundle can be one of a signer
// that has not been read yet.
func Orphan(b *bundle, known bool, now time.Time) Plan {
	var plan Plan
	_, retired := b.Annotations[UntilAnnotation]
	if !retired && (b.Labels[DeclaredLabel] == "" || !known) {
		return plan
	}
	overlap, err := time.ParseDuration(b.Annotations[OverlapAnnotation])
	if err != nil {
		overlap = defaultOverlap
	}
	Signer{Name: b.Spec.SignerName, Overlap: overlap}.retire(&plan, b, now)
	return plan
}

// bundleName returns the name of a bundle by the scheme of Kubernetes'
// publisher: it depends on the content.
func (s Signer) bundleName(content string) string {
	sum := sha256.Sum256([]byte(content))
	return certificates.TrustBundlePrefix(s.Name) + hex.EncodeToString(sum[:12])
}

// mayChange reports whether we may change a bundle.
func (s Signer) mayChange(b *bundle) bool {
	return s.Exclusive || b.Labels[ManagedByLabel] == ManagedBy
}

// authentic reports whether a bundle still has the content with which it was
// published, according to its name.
func (s Signer) authentic(b *bundle) bool { return b.Name == s.bundleName(b.Spec.TrustBundle) }

// fix corrects the bundle of the current roots.
func (s Signer) fix(b, wanted *bundle) (*bundle, bool) {
	_, retired := b.Annotations[UntilAnnotation]
	described := b.Annotations[OverlapAnnotation] == wanted.Annotations[OverlapAnnotation]
	if s.mayChange(b) && !retired && described && b.Spec.TrustBundle == wanted.Spec.TrustBundle {
		return b, false
	}
	b = b.DeepCopy()
	if s.Declared {
		b.Annotations = withEntry(b.Annotations, OverlapAnnotation, wanted.Annotations[OverlapAnnotation])
		b.Labels = withEntry(b.Labels, DeclaredLabel, "true")
	}
	delete(b.Annotations, UntilAnnotation)
	b.Labels = withEntry(b.Labels, ManagedByLabel, ManagedBy)
	b.Spec.TrustBundle = wanted.Spec.TrustBundle
	return b, true
}

// retire plans what to do with a bundle that is not the current one.
func (s Signer) retire(plan *Plan, b *bundle, now time.Time) {
	if !s.mayChange(b) {
		return
	}
	latest := now.Add(s.Overlap)
	until, err := time.Parse(time.RFC3339, b.Annotations[UntilAnnotation])
	set := err == nil && !until.After(latest)
	if !set {
		until = latest.UTC().Truncate(time.Second)
	}
	switch {
	case !s.authentic(b), s.holdsDistrusted(b), !now.Before(until), !now.Before(lastEnd(b)):
		plan.Delete = append(plan.Delete, b)
	case !set:
		b = b.DeepCopy()
		b.Annotations = withEntry(b.Annotations, UntilAnnotation, until.Format(time.RFC3339))
		plan.Update = append(plan.Update, b)
		fallthrough
	default:
		plan.Again = pki.Soonest(plan.Again, until, lastEnd(b))
	}
}

// holdsDistrusted reports whether a bundle has a root that must not be trusted. Its
// other roots are in the bundle of the current ones.
func (s Signer) holdsDistrusted(b *bundle) bool {
	if len(s.Distrusted) == 0 {
		return false
	}
	certs, err := pki.ParseCertificates([]byte(b.Spec.TrustBundle))
	return err == nil && slices.ContainsFunc(certs, func(cert *x509.Certificate) bool {
		return slices.Contains(s.Distrusted, pki.Fingerprint(cert))
	})
}

// lastEnd returns when the last of a bundle's certificates expires.
func lastEnd(b *bundle) time.Time {
	var last time.Time
	certs, err := pki.ParseCertificates([]byte(b.Spec.TrustBundle))
	if err != nil {
		return last
	}
	for _, cert := range certs {
		if cert.NotAfter.After(last) {
			last = cert.NotAfter
		}
	}
	return last
}

func withEntry(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
