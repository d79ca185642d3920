// Package revoke revokes certificates: it finds them in the inventory, asks a person where
// many or the wrong ones could be meant, and creates a Revocation.
package revoke

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
)

// Config selects the certificates and the reason.
type Config struct {
	// Config connects, and selects certificates by Serial, Fingerprint, RequestName, Signer,
	// Requester, Namespace, KeyFingerprint, Selector, Until and Name: a name in the
	// certificate, a serial number or the name of a record.
	certificates.Config
	// File is the certificate itself.
	File *x509.Certificate
	// RequestKind is the kind of the request RequestName.
	RequestKind *rights.Kind
	// Certificate is a Certificate of cert-manager.io in Namespace, Host a node, and CA the
	// key identifier of a CA, in hexadecimal.
	Certificate, Host, CA string

	// Reason is a reason of Revocations; Message is for people, and may be empty.
	Reason, Message string
	// All revokes all certificates that have the name.
	All bool
	// DryRun shows what would be revoked, and writes nothing.
	DryRun bool
	// Yes confirms without a question: it must be the number of certificates. 0 asks.
	Yes int
	// Wait is the maximum time until the certificates are in all revocation lists; 0 does
	// not wait.
	Wait time.Duration
	// Own is the certificate of the caller's kubeconfig; nil if it has none.
	Own *x509.Certificate
	// Terminal answers questions; nil without one.
	Terminal io.Reader
	// Command returns a command line of this program for the same server.
	Command func(words ...string) string
}

// NotListed is the exit code for certificates that are revoked, but not yet in all revocation
// lists.
const NotListed = 3

// maxNamed is the maximum number of certificates in spec.certificates of a Revocation.
const maxNamed = 1000

// Run revokes the certificates. It creates one Revocation, whose rights and limits the server
// checks, or none.
func Run(ctx context.Context, cfg Config) error {
	c, err := cfg.Connect()
	if err != nil {
		return err
	}
	a, err := cfg.prepare(ctx, c)
	if err != nil {
		return err
	}
	if cfg.DryRun {
		return a.tryOut(ctx, c)
	}
	if err := a.confirm(ctx); err != nil {
		return err
	}
	revocation, err := a.create(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprint(cfg.Stdout, a.report(revocation))
	if cfg.Host != "" {
		fmt.Fprint(cfg.Stderr, cfg.hostAdvice())
	}
	return cfg.await(ctx, c, revocation)
}

// prepare finds the certificates.
func (cfg Config) prepare(ctx context.Context, c client.Client) (*act, error) {
	a := &act{Config: cfg, of: map[[2]string]int{}, spec: v1alpha1.RevocationSpec{Reason: v1alpha1.RevocationReason(cfg.Reason), Message: cfg.Message}}
	switch {
	case cfg.File != nil:
		a.spec.Certificates = []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(cfg.File))}}
		a.add(recordOf(cfg.File))
		return a, nil
	case len(cfg.ways()) == 0:
		return a, a.selectAll(ctx, c)
	}
	found, err := cfg.find(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 && !cfg.All {
		fmt.Fprint(cfg.Stderr, cfg.Table(found))
		return nil, exit.WithNext(fmt.Errorf("%d certificates match: nothing was revoked", len(found)), "To revoke one of them: --serial SERIAL. To revoke all of them: --all.")
	}
	for i := range found {
		a.add(&found[i])
		a.spec.Certificates = append(a.spec.Certificates, v1alpha1.RevokedCertificate{Fingerprint: found[i].Certificate.Fingerprint})
	}
	return a, nil
}

// recordOf returns the facts shown about a certificate that need not be recorded.
func recordOf(cert *x509.Certificate) *inventoryv1alpha1.IssuedCertificate {
	return &inventoryv1alpha1.IssuedCertificate{SignerName: cert.Issuer.String(), Certificate: inventoryv1alpha1.CertificateFacts{
		SerialNumber: cert.SerialNumber.Text(16), AuthorityKeyID: hex.EncodeToString(cert.AuthorityKeyId), Subject: cert.Subject.String(), DNSNames: cert.DNSNames,
	}}
}

// pollEvery is the time between two looks at a Revocation.
const pollEvery = 200 * time.Millisecond

// await waits until the certificates are in all revocation lists, and reports it.
func (cfg Config) await(ctx context.Context, c client.Client, revocation *v1alpha1.Revocation) error {
	if cfg.Wait <= 0 || revocation.Status.Recorded == 0 { // what was revoked before is waited for by its own Revocation
		return nil
	}
	var listed *metav1.Condition
	err := wait.PollUntilContextTimeout(ctx, pollEvery, cfg.Wait, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(revocation), revocation); err != nil {
			return false, fmt.Errorf("reading the Revocation: %w", err)
		}
		listed = meta.FindStatusCondition(revocation.Status.Conditions, v1alpha1.RevocationListed)
		return listed != nil && (listed.Status == metav1.ConditionTrue || listed.Reason == "NoList"), nil // waiting makes no list
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && listed.Status == metav1.ConditionTrue:
		fmt.Fprintln(cfg.Stdout, "refused by this server now. "+print.Printable(listed.Message))
		return nil
	case listed != nil && (err == nil || errors.Is(err, context.DeadlineExceeded)):
		err = errors.New(print.Printable(listed.Message))
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no message about lists after %s", cfg.Wait)
	}
	return &exit.Error{
		Err: fmt.Errorf("refused by this server now, but not in all revocation lists: %w", err), Code: NotListed,
		Next: []string{"To look again: " + cfg.Command("explain", "revocation", revocation.Name)},
	}
}

// hostAdvice lists the other credentials of a host.
func (cfg Config) hostAdvice() string {
	p := &print.Page{}
	p.Line("What else the host " + cfg.Host + " may have:")
	p.Table([][]string{
		{"tokens of its pods, until these are deleted", cfg.Command("kubectl", "get", "pods", "-A", "--field-selector", "spec.nodeName="+cfg.Host)},
		{"objects that RoleBindings let it read", cfg.Command("kubectl", "get", "rolebindings", "-A", "-o", "wide")},
		{"tokens with which it can join again", cfg.Command("token", "list")},
	})
	return p.String()
}

// meanings explain the reasons.
var meanings = map[pki.Reason]string{
	pki.ReasonUnspecified:          "no reason is given",
	pki.ReasonKeyCompromise:        "somebody else has, or may have, the private key; no request with this key is signed any more",
	pki.ReasonCACompromise:         "the same, for the certificate of a CA",
	pki.ReasonAffiliationChanged:   "the subject has changed: somebody left, or has another name",
	pki.ReasonSuperseded:           "another certificate has replaced it",
	pki.ReasonCessationOfOperation: "it is not needed any more: the host or the service is gone",
	pki.ReasonPrivilegeWithdrawn:   "the subject has lost a right that the certificate states",
}

// Meaning says in a phrase when to give a reason.
func Meaning(r pki.Reason) string { return meanings[r] }

// ways are the values that name single certificates.
func (cfg Config) ways() []string {
	all := []string{cfg.Name, cfg.Serial, cfg.Fingerprint, cfg.RequestName, cfg.Certificate}
	if cfg.File != nil {
		all = append(all, cfg.File.SerialNumber.String())
	}
	return slices.DeleteFunc(all, func(value string) bool { return value == "" })
}

// Check returns an error if the fields select nothing, or do not go together.
func (cfg Config) Check() error {
	selection := cfg.selection()
	before := v1alpha1.RevocationSelection{IssuedBefore: selection.IssuedBefore}
	selectsAll, ways := apiequality.Semantic.DeepEqual(*selection, before), len(cfg.ways())
	switch {
	case ways > 1:
		return errors.New("name the certificate in one way: NAME, --serial, --fingerprint, --file, --request or --certificate")
	case cfg.File != nil && !(selectsAll && before.IssuedBefore == nil):
		return errors.New("--file is one certificate: omit the flags that select certificates")
	case ways == 0 && selectsAll && before.IssuedBefore != nil:
		return errors.New("--issued-before alone would select all certificates: add --signer, --requester or another flag")
	case ways == 0 && selectsAll:
		return errors.New("name the certificate, as in 'certplane revoke web.example.com --reason KeyCompromise', or select certificates with flags")
	}
	return nil
}

// matches checks conditions for which the server has no field selector.
func (cfg Config) matches(r *inventoryv1alpha1.IssuedCertificate) bool {
	at := r.Location
	switch {
	case cfg.RequestKind != nil && r.Request.Kind != cfg.RequestKind.Name:
		return false
	case cfg.Certificate != "" && (at == nil || at.Kind != "Certificate" || at.Namespace != cfg.Namespace || at.Name != cfg.Certificate):
		return false
	}
	return inventory.Selects(cfg.selection(), r)
}

// find returns the named certificates that have neither ended nor been revoked. If all of them
// have been revoked, it returns these: the server can raise their reason.
func (cfg Config) find(ctx context.Context, c client.Client) ([]inventoryv1alpha1.IssuedCertificate, error) {
	var ended *inventoryv1alpha1.CertificateFacts
	for _, search := range cfg.searches() {
		search.Ended, search.Limit, search.Matches = true, maxNamed, func(r *inventoryv1alpha1.IssuedCertificate) bool {
			switch {
			case !cfg.matches(r):
				return false
			case !r.Certificate.NotAfter.After(cfg.Now):
				ended = &r.Certificate
				return false
			}
			return true
		}
		found, more, err := certificates.Find(ctx, c, search)
		switch {
		case errors.Is(err, certificates.ErrNoInventory) || apierrors.IsForbidden(err):
			return nil, exit.WithNext(err, "Without the inventory, give the certificate itself: --file tls.crt")
		case err != nil:
			return nil, err
		case more:
			return nil, fmt.Errorf("more than %d certificates match: select fewer with other flags", maxNamed)
		}
		valid := slices.DeleteFunc(slices.Clone(found), func(r inventoryv1alpha1.IssuedCertificate) bool { return inventory.IsRevoked(&r) })
		switch {
		case len(valid) > 0:
			return valid, nil
		case len(found) > 0:
			return found, nil
		}
	}
	if ended != nil {
		return nil, fmt.Errorf("the certificate with the serial number %s ended on %s: nothing was revoked", ended.SerialNumber, ended.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil, exit.WithNext(errors.New("no such certificate is recorded: nothing was revoked"),
		"To list certificates: "+cfg.Command("certificates"), "A certificate without a record can be given itself: --file tls.crt")
}

// searches returns the searches for what is named; the first one with a result counts. A name
// can also be a serial number, a fingerprint or the first half of one, which is the name of a
// record. These come first, because requesters choose names.
func (cfg Config) searches() (all []certificates.Config) {
	search := cfg.Config
	digits := strings.ToLower(strings.ReplaceAll(search.Name, ":", ""))
	if _, err := hex.DecodeString(strings.Repeat("0", len(digits)%2) + digits); err == nil && digits != "" {
		search.Name = ""
		for _, field := range []*string{&search.Serial, &search.Fingerprint, &search.RecordName} {
			*field = digits
			all = append(all, search)
			*field = ""
		}
	}
	return append(all, cfg.Config)
}

// selection returns the selection for a Revocation.
func (cfg Config) selection() *v1alpha1.RevocationSelection {
	one := func(value string) []string {
		if value == "" {
			return nil
		}
		return []string{value}
	}
	s := &v1alpha1.RevocationSelection{
		Signers: one(cfg.Signer), Requesters: one(cfg.Requester), Nodes: one(cfg.Host), Namespaces: one(cfg.Namespace),
		AuthorityKeyIDs: one(cfg.CA), KeyFingerprints: one(cfg.KeyFingerprint),
	}
	if cfg.Selector != nil {
		s.Labels = cfg.Selector.String()
	}
	if !cfg.Until.IsZero() {
		s.IssuedBefore = &metav1.Time{Time: cfg.Until}
	}
	return s
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// generateName returns the beginning of the Revocation's name.
func (cfg Config) generateName() string {
	text := cmp.Or(cfg.Name, cfg.Certificate, cfg.RequestName, cfg.Host, cfg.Requester, cfg.Signer, cfg.Namespace)
	name := notInNames.ReplaceAllString(strings.ToLower(text), "-")
	const most = 40
	return cmp.Or(strings.Trim(name[:min(len(name), most)], "-"), "certificates") + "-"
}
