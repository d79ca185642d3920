package signers

import (
	"crypto/x509"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/revocation"
)

// Certificates of a replaced CA live on, and must be revocable. Therefore the Secret of a
// generated CA keeps the keys of former CAs, for revocation lists only, until the last of their
// certificates has ended. They are under the names of their RevocationLists.
const (
	// formerPrefix begins the keys of the Secret's data with former CAs; certSuffix and
	// keySuffix end them.
	formerPrefix = "former-"
	certSuffix   = ".crt"
	keySuffix    = ".key"
	// formerAnnotation, with the name of the list, is until when a key is kept (RFC 3339).
	formerAnnotation = "certplane.dev/former-"
	// mostFormer bounds the size of the Secret: of more former CAs, those that end first have
	// no list any more.
	mostFormer = 100
)

// keepFormer keeps the key of a CA that is replaced until no certificate of it is valid. The
// list of a distrusted CA would prove nothing.
func (r *reconciler) keepFormer(s *v1alpha1.Signer, secret *corev1.Secret, ca *x509.Certificate) {
	if compiled, _ := r.memory.compile(s); compiled != nil && !distrusts(s, pki.Fingerprint(ca)) {
		id := revocation.ListID(ca)
		secret.Data[formerPrefix+id+certSuffix], secret.Data[formerPrefix+id+keySuffix] = secret.Data[generatedKeys.Cert], secret.Data[generatedKeys.Key]
		until := rotation.TrustUntil(ca.NotAfter, longestUnder(s.Status.CA, compiled)+overlapMargin, r.Clock.Now())
		secret.Annotations[formerAnnotation+id] = until.Format(time.RFC3339)
	}
}

// formerNames returns the names of the former CAs in the data of a Secret, sorted.
func formerNames(data map[string][]byte) (names []string) {
	for key := range data {
		if id, ok := strings.CutPrefix(key, formerPrefix); ok && strings.HasSuffix(id, keySuffix) {
			names = append(names, strings.TrimSuffix(id, keySuffix))
		}
	}
	slices.Sort(names)
	return names
}

// formerUntil returns until when the key of a former CA is kept; zero if it must not be used. A
// time that cannot be read counts as the end of the CA.
func formerUntil(secret *corev1.Secret, id string, distrusts func(*x509.Certificate) bool) time.Time {
	chain, err := pki.ParseBundle(secret.Data[formerPrefix+id+certSuffix])
	if err != nil || distrusts != nil && distrusts(chain[0]) {
		return time.Time{}
	}
	until, err := time.Parse(time.RFC3339, secret.Annotations[formerAnnotation+id])
	if err != nil || until.After(chain[0].NotAfter) {
		return chain[0].NotAfter
	}
	return until
}

// forgetFormer removes the keys of former CAs from a Secret that are not needed any more, or
// must not be used. It reports whether there were any, and when the next one ends; zero if none
// is left.
func forgetFormer(secret *corev1.Secret, distrusts func(*x509.Certificate) bool, now time.Time) (changed bool, next time.Time) {
	names := formerNames(secret.Data)
	until := func(id string) time.Time { return formerUntil(secret, id, distrusts) }
	slices.SortStableFunc(names, func(a, b string) int { return until(a).Compare(until(b)) })
	for n, id := range names {
		if ends := until(id); now.Before(ends) && len(names)-n <= mostFormer {
			return changed, ends
		}
		delete(secret.Data, formerPrefix+id+certSuffix)
		delete(secret.Data, formerPrefix+id+keySuffix)
		delete(secret.Annotations, formerAnnotation+id)
		changed = true
	}
	return changed, time.Time{}
}

// openFormer opens the keys of former CAs. A damaged one must not keep the Signer from signing.
func openFormer(secret *corev1.Secret) (all []declared.FormerCA) {
	for _, id := range formerNames(secret.Data) {
		lists, err := pki.ParseListAuthority(secret.Data[formerPrefix+id+certSuffix], secret.Data[formerPrefix+id+keySuffix])
		if err != nil {
			klog.ErrorS(err, "Cannot use the key of a former CA for its revocation list", "secret", klog.KObj(secret), "key", formerPrefix+id+keySuffix)
			continue
		}
		all = append(all, declared.FormerCA{ListAuthority: lists, Until: formerUntil(secret, id, nil)})
	}
	return all
}

// formerData returns the data that openFormer reads, for detecting changes.
func formerData(secret *corev1.Secret) (parts [][]byte) {
	for _, id := range formerNames(secret.Data) {
		parts = append(parts, secret.Data[formerPrefix+id+certSuffix], secret.Data[formerPrefix+id+keySuffix], []byte(secret.Annotations[formerAnnotation+id]))
	}
	return parts
}
