package revoke

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
)

// Which selects certificates: single ones, or all that match its fields.
type Which struct {
	// Name is a name in the certificate, a serial number or the name of a record; Serial and
	// Fingerprint are hexadecimal.
	Name, Serial, Fingerprint string
	// File is the certificate itself.
	File *x509.Certificate
	// RequestKind and RequestName name the request, in Namespace if its kind has one.
	RequestKind *rights.Kind
	RequestName string
	// Certificate is a Certificate of cert-manager.io in Namespace.
	Certificate string

	// Fields of records. Host is a node; CA is the key identifier of a CA, and KeyFingerprint
	// the SHA-256 digest of a public key, in hexadecimal; Labels may be nil.
	Signer, Requester, Namespace, Host, CA, KeyFingerprint string
	Labels                                                 labels.Selector
	IssuedBefore                                           time.Time // exclusive
}

// named reports whether single certificates are named.
func (w Which) named() bool {
	return w.Name+w.Serial+w.Fingerprint+w.RequestName+w.Certificate != "" || w.File != nil
}

func (w Which) labels() string {
	if w.Labels == nil {
		return ""
	}
	return w.Labels.String()
}

// Check returns an error if the fields select nothing, or do not go together.
func (w Which) Check() error {
	ways := 0
	for _, given := range []bool{w.Name != "", w.Serial != "", w.Fingerprint != "", w.File != nil, w.RequestName != "", w.Certificate != ""} {
		if given {
			ways++
		}
	}
	rest := w.Signer + w.Requester + w.Namespace + w.Host + w.CA + w.KeyFingerprint + w.labels()
	switch {
	case ways > 1:
		return errors.New("name the certificate in one way: NAME, --serial, --fingerprint, --file, --request or --certificate")
	case w.File != nil && (rest != "" || !w.IssuedBefore.IsZero()):
		return errors.New("--file is one certificate: omit the flags that select certificates")
	case ways == 0 && rest == "" && !w.IssuedBefore.IsZero():
		return errors.New("--issued-before alone would select all certificates: add --signer, --requester or another flag")
	case ways == 0 && rest == "":
		return errors.New("name the certificate, as in 'certplane revoke web.example.com --reason KeyCompromise', or select certificates with flags")
	}
	return nil
}

// inInventory returns the search for the certificates. Conditions for which the server has no
// field selector are checked here.
func (w Which) inInventory(now time.Time) certificates.Config {
	return certificates.Config{
		Name: w.Name, Serial: w.Serial, Fingerprint: w.Fingerprint, RequestName: w.RequestName,
		KeyFingerprint: w.KeyFingerprint, Signer: w.Signer, Requester: w.Requester, Namespace: w.Namespace, Selector: w.Labels,
		Until: w.IssuedBefore, Matches: w.matches, Limit: maxNamed, Now: now,
	}
}

func (w Which) matches(r *inventoryv1alpha1.IssuedCertificate) bool {
	at := r.Location
	switch {
	case w.RequestKind != nil && r.Request.Kind != w.RequestKind.Name:
		return false
	case w.Certificate != "" && (at == nil || at.Kind != "Certificate" || at.Namespace != w.Namespace || at.Name != w.Certificate):
		return false
	}
	rest := w
	rest.Name = "" // which may be another one than a name
	return inventory.Selects(rest.selection(), r)
}

// find returns the named certificates that have neither ended nor been revoked, and whether
// there are more than maxNamed. If all of them have been revoked, it returns these: the
// server can raise their reason.
func (cfg Config) find(ctx context.Context, c client.Client) (found []inventoryv1alpha1.IssuedCertificate, more bool, err error) {
	search, err := cfg.search()
	if err != nil {
		return nil, false, err
	}
	all, more, err := findAll(ctx, c, search)
	if errors.Is(err, certificates.ErrNoInventory) || apierrors.IsForbidden(err) {
		return nil, false, exit.WithNext(err, "Without the inventory, give the certificate itself: --file tls.crt")
	}
	if err != nil {
		return nil, false, err
	}
	valid := slices.DeleteFunc(slices.Clone(all), func(r inventoryv1alpha1.IssuedCertificate) bool { return inventory.IsRevoked(&r) })
	switch {
	case len(valid) > 0:
		return valid, more, nil
	case len(all) > 0:
		return all, more, nil
	}
	return nil, false, cfg.notFound(ctx, c, search)
}

// search returns the searches for what is named. A name can also be a serial number or a
// fingerprint, and the name of a record is the first half of a fingerprint.
func (cfg Config) search() ([]certificates.Config, error) {
	w := cfg.Which
	if w.Name == "" {
		return []certificates.Config{w.inInventory(cfg.Now())}, nil
	}
	searches := []certificates.Config{w.inInventory(cfg.Now())}
	digits := strings.ToLower(strings.ReplaceAll(w.Name, ":", ""))
	if _, err := hex.DecodeString(strings.Repeat("0", len(digits)%2) + digits); err == nil {
		w.Name, w.Serial = "", digits
		searches = append(searches, w.inInventory(cfg.Now()))
		if w.Serial = ""; len(digits) == 64 {
			w.Fingerprint = digits
			searches = append(searches, w.inInventory(cfg.Now()))
		} else if len(digits) == 32 {
			search := w.inInventory(cfg.Now())
			search.RecordName = digits
			searches = append(searches, search)
		}
	}
	return searches, nil
}

// findAll returns what searches find, each record once.
func findAll(ctx context.Context, c client.Client, searches []certificates.Config) (all []inventoryv1alpha1.IssuedCertificate, more bool, err error) {
	for _, search := range searches {
		found, most, err := certificates.Find(ctx, c, search)
		if err != nil {
			return nil, false, err
		}
		all, more = append(all, found...), more || most
	}
	slices.SortFunc(all, func(a, b inventoryv1alpha1.IssuedCertificate) int {
		return cmp.Or(a.Certificate.NotAfter.Compare(b.Certificate.NotAfter.Time), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(all, func(a, b inventoryv1alpha1.IssuedCertificate) bool { return a.Name == b.Name }), more, nil
}

// notFound returns the error for certificates that are not found: they may have ended.
func (cfg Config) notFound(ctx context.Context, c client.Client, searches []certificates.Config) error {
	for i := range searches {
		searches[i].Ended, searches[i].Limit = true, 1
	}
	ended, _, err := findAll(ctx, c, searches)
	if err != nil {
		return err
	}
	if len(ended) > 0 {
		return fmt.Errorf("the certificate with the serial number %s ended on %s: nothing was revoked", ended[0].Certificate.SerialNumber, ended[0].Certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	return exit.WithNext(errors.New("no such certificate is recorded: nothing was revoked"),
		"To list certificates: "+cfg.Command("certificates"), "A certificate without a record can be given itself: --file tls.crt")
}

// selection returns the selection for a Revocation.
func (w Which) selection() *v1alpha1.RevocationSelection {
	one := func(value string) []string {
		if value == "" {
			return nil
		}
		return []string{value}
	}
	s := &v1alpha1.RevocationSelection{
		Signers: one(w.Signer), Requesters: one(w.Requester), Names: one(w.Name), Nodes: one(w.Host), Namespaces: one(w.Namespace),
		AuthorityKeyIDs: one(w.CA), KeyFingerprints: one(w.KeyFingerprint), Labels: w.labels(),
	}
	if !w.IssuedBefore.IsZero() {
		at := metav1.NewTime(w.IssuedBefore)
		s.IssuedBefore = &at
	}
	return s
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// generateName returns the beginning of the Revocation's name, which says what is selected.
func (w Which) generateName() string {
	text := cmp.Or(w.Name, w.Certificate, w.RequestName, w.Serial, w.Fingerprint)
	for _, part := range []struct{ kind, value string }{{"host", w.Host}, {"requester", w.Requester}, {"signer", w.Signer}, {"key", w.KeyFingerprint}, {"ca", w.CA}, {"namespace", w.Namespace}} {
		if text == "" && part.value != "" {
			text = part.kind + "-" + part.value
		}
	}
	if w.File != nil {
		text = "file-" + w.File.SerialNumber.Text(16)
	}
	name := notInNames.ReplaceAllString(strings.ToLower(text), "-")
	const most = 40
	return cmp.Or(strings.Trim(name[:min(len(name), most)], "-"), "certificates") + "-"
}

func pemOf(cert *x509.Certificate) string { return string(pki.EncodeCertificates(cert)) }

// recordOf returns what is shown of a certificate that need not be recorded.
func recordOf(cert *x509.Certificate) inventoryv1alpha1.IssuedCertificate {
	facts := inventoryv1alpha1.CertificateFacts{
		SerialNumber: cert.SerialNumber.Text(16), Fingerprint: pki.Fingerprint(cert), AuthorityKeyID: hex.EncodeToString(cert.AuthorityKeyId),
		Subject: cert.Subject.String(), Issuer: cert.Issuer.String(), CommonName: cert.Subject.CommonName, DNSNames: cert.DNSNames, NotAfter: metav1.NewTime(cert.NotAfter),
	}
	return inventoryv1alpha1.IssuedCertificate{SignerName: cert.Issuer.String(), Certificate: facts}
}
