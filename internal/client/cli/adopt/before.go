package adopt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
)

// Before is the file before.json: fingerprints of what a move must not change. It contains
// nothing secret.
type Before struct {
	Program string      `json:"program"`
	Time    metav1.Time `json:"time"`
	// Certificates are the fingerprints of Certificates, by NAMESPACE/NAME.
	Certificates map[string]Fingerprint `json:"certificates"`
	// Objects are digests of injected CAs or of the targets of Bundles, by kind and name.
	Objects map[string]string `json:"objects"`
}

// digest returns the SHA-256 digest of parts, in hexadecimal.
func digest(parts ...[]byte) string {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Fingerprint identifies the certificate of a Certificate.
type Fingerprint struct {
	Secret string `json:"secret"`
	// Leaf and Key are SHA-256 digests of the certificate and of its public key; empty if the
	// Secret contains none.
	Leaf string `json:"leaf,omitempty"`
	Key  string `json:"key,omitempty"`
	// Keystores are digests of the keystores, by their keys in the Secret.
	Keystores map[string]string `json:"keystores,omitempty"`
	Revision  int               `json:"revision"`
	// RenewalTime is when the certificate is due for renewal.
	RenewalTime *metav1.Time `json:"renewalTime,omitempty"`
}

func fingerprint(crt *cmv1.Certificate, s *corev1.Secret) Fingerprint {
	f := Fingerprint{Secret: crt.Spec.SecretName, Keystores: map[string]string{}, Revision: ptr.Deref(crt.Status.Revision, 0), RenewalTime: crt.Status.RenewalTime}
	if s == nil {
		return f
	}
	if certs, err := pki.ParseBundle(s.Data[corev1.TLSCertKey]); err == nil {
		f.Leaf, f.Key = pki.Fingerprint(certs[0]), pki.KeyFingerprint(certs[0].PublicKey)
	}
	if key, err := pki.ParsePrivateKey(s.Data[corev1.TLSPrivateKeyKey]); err == nil {
		f.Key = pki.KeyFingerprint(key.Public())
	}
	for _, at := range []string{cmv1.JKSSecretKey, cmv1.JKSTruststoreKey, cmv1.PKCS12SecretKey, cmv1.PKCS12TruststoreKey} {
		if store := s.Data[at]; len(store) > 0 {
			f.Keystores[at] = digest(store)
		}
	}
	return f
}

// Verify compares the cluster with the file before.json. A check failed if a certificate or a key
// has changed that was not due for renewal.
func Verify(ctx context.Context, cfg Config, file string) (check.Report, error) {
	var before Before
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err == nil && before.Certificates == nil {
		err = errors.New("it was not written by certplane adopt --write")
	}
	if err != nil {
		return check.Report{}, fmt.Errorf("reading the fingerprints in %s: %w", file, err)
	}
	m, err := cfg.connect()
	if err != nil {
		return check.Report{}, err
	}
	return m.verify(ctx, before)
}

func (m *reader) verify(ctx context.Context, before Before) (check.Report, error) {
	// The program may be gone by now: only what is compared is read.
	p := m.newPlan()
	p.Parts = []Part{{Name: "cainjector"}}
	for _, look := range m.comparisons() {
		if err := look(ctx, p); err != nil {
			return p.Report, err
		}
	}
	now := p.before
	verdict := &Plan{Report: check.NewReport()}
	same, due := 0, 0
	for _, name := range slices.Sorted(maps.Keys(before.Certificates)) {
		was := before.Certificates[name]
		is, exists := now.Certificates[name]
		wasDue := was.RenewalTime != nil && !was.RenewalTime.After(m.now) || was.Leaf == ""
		switch {
		case !exists:
			verdict.fail(topicCertificates, fmt.Sprintf("Certificate %s does not exist any more", name))
		case is.Leaf == was.Leaf && is.Key == was.Key:
			same++
			for _, at := range slices.Sorted(maps.Keys(was.Keystores)) {
				if is.Keystores[at] != was.Keystores[at] {
					verdict.warn(topicCertificates, fmt.Sprintf("the keystore %s of Certificate %s was written again, or is gone; its key and certificate are the same", at, name))
				}
			}
		case wasDue:
			due++
		case is.Key != was.Key:
			verdict.fail(topicCertificates, fmt.Sprintf("Certificate %s has a new key, and was not due for renewal", name))
		default:
			verdict.fail(topicCertificates, fmt.Sprintf("Certificate %s was issued again with the same key, and was not due for renewal", name))
		}
	}
	verdict.ok(topicCertificates, "%s unchanged, %d renewed that were due", print.Number(same, "Certificate"), due)
	same = 0
	for _, name := range slices.Sorted(maps.Keys(before.Objects)) {
		if now.Objects[name] != before.Objects[name] {
			verdict.warn(topicObjects, name+" has changed, or is gone")
			continue
		}
		same++
	}
	verdict.ok(topicObjects, "%s unchanged", print.Number(same, "object"))
	for _, c := range p.Checks {
		if c.Result == check.NotChecked {
			verdict.Add(c.Topic, c)
		}
	}
	return verdict.Report, nil
}

// decode decodes JSON values.
func decode(from map[string]any, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from, into); err != nil {
		return fmt.Errorf("reading an object: %w", err)
	}
	return nil
}
