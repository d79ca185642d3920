// Package revoke revokes certificates: it finds them in the inventory, asks a person where
// many or the wrong ones could be meant, and creates a Revocation.
package revoke

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config selects the certificates and the reason.
type Config struct {
	// Which selects the certificates.
	Which Which
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
	// Connect returns a client, as from certificates.Connect.
	Connect func() (client.Client, error)
	// Terminal answers questions; nil without one.
	Terminal io.Reader
	// Command returns a command line of this program for the same server.
	Command        func(words ...string) string
	Now            func() time.Time
	Stdout, Stderr io.Writer
}

// NotListed is the exit code for certificates that are revoked, but not yet in all revocation
// lists.
const NotListed = 3

// maxNamed is the maximum number of certificates in spec.certificates of a Revocation.
const maxNamed = 1000

// act is one act of revocation.
type act struct {
	spec v1alpha1.RevocationSpec
	summary
	// danger is why the certificate is not revoked without a question; empty for none.
	danger string
}

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
		return cfg.tryOut(ctx, c, a)
	}
	if err := cfg.confirm(ctx, a); err != nil {
		return err
	}
	revocation, err := cfg.create(ctx, c, a.spec)
	if err != nil {
		return err
	}
	cfg.report(a, revocation)
	if cfg.Which.Host != "" {
		fmt.Fprint(cfg.Stderr, cfg.hostAdvice())
	}
	return cfg.await(ctx, c, revocation)
}

// prepare finds the certificates.
func (cfg Config) prepare(ctx context.Context, c client.Client) (act, error) {
	spec := v1alpha1.RevocationSpec{Reason: v1alpha1.RevocationReason(cfg.Reason), Message: cfg.Message}
	if cfg.Which.File != nil {
		return cfg.ofFile(spec), nil
	}
	if !cfg.Which.named() {
		return cfg.selected(ctx, c, spec)
	}
	found, more, err := cfg.find(ctx, c)
	switch {
	case err != nil:
		return act{}, err
	case more && (cfg.Which.Name == "" || !cfg.All): // only a name can be selected, too
		return act{}, exit.WithNext(fmt.Errorf("more than %d certificates match", maxNamed), "Select fewer with other flags, or add --all.")
	case more:
		return cfg.selected(ctx, c, spec)
	case len(found) > 1 && !cfg.All:
		fmt.Fprint(cfg.Stderr, certificates.Config{Now: cfg.Now()}.Table(found))
		return act{}, exit.WithNext(fmt.Errorf("%d certificates match: nothing was revoked", len(found)), "To revoke one of them: --serial SERIAL. To revoke all of them: --all.")
	}
	a := act{spec: spec}
	for i := range found {
		a.add(&found[i])
		a.spec.Certificates = append(a.spec.Certificates, v1alpha1.RevokedCertificate{Fingerprint: found[i].Certificate.Fingerprint})
		switch r := &found[i]; {
		case cfg.isOwn(r):
			a.danger = "This is the certificate of your own kubeconfig. The server will refuse it."
		case r.Use != "" && a.danger == "":
			a.danger = "The server uses this certificate itself (" + r.Use + ")."
		}
	}
	return a, nil
}

// ofFile revokes the certificate of a file, which the server need not have recorded.
func (cfg Config) ofFile(spec v1alpha1.RevocationSpec) act {
	record := recordOf(cfg.Which.File)
	spec.Certificates = []v1alpha1.RevokedCertificate{{PEM: pemOf(cfg.Which.File)}}
	a := act{spec: spec}
	a.add(&record)
	if cfg.isOwn(&record) {
		a.danger = "This is the certificate of your own kubeconfig. The server will refuse it."
	}
	return a
}

// isOwn reports whether a record is that of the caller's certificate. It does not compare
// fingerprints: a certificate can have two.
func (cfg Config) isOwn(r *inventoryv1alpha1.IssuedCertificate) bool {
	return cfg.Own != nil && r.Certificate.SerialNumber == cfg.Own.SerialNumber.Text(16) && r.Certificate.AuthorityKeyID == fmt.Sprintf("%x", cfg.Own.AuthorityKeyId)
}

// selected prepares a selection. The server checks the rights, and says its time. What is
// issued after the count is not revoked.
func (cfg Config) selected(ctx context.Context, c client.Client, spec v1alpha1.RevocationSpec) (act, error) {
	spec.Selection, spec.AtMost = cfg.Which.selection(), math.MaxInt32
	if spec.Selection.IssuedBefore == nil {
		// Times are in whole seconds: what was issued in this one must be before the count.
		if !worker.Sleep(ctx, time.Second) {
			return act{}, ctx.Err()
		}
	}
	checked, err := cfg.try(ctx, c, spec)
	if err != nil {
		return act{}, err
	}
	a := act{spec: spec}
	if a.spec.Selection.IssuedBefore == nil {
		a.spec.Selection.IssuedBefore = checked.CreationTimestamp.DeepCopy()
	}
	if err := cfg.countInto(ctx, c, &a); err != nil {
		return act{}, err
	}
	if a.count == 0 {
		return act{}, errors.New("no certificate matches that has neither ended nor been revoked: nothing was revoked")
	}
	a.spec.AtMost = int32(min(a.count, math.MaxInt32))
	return a, nil
}

// try lets the server check a Revocation, and count.
func (cfg Config) try(ctx context.Context, c client.Client, spec v1alpha1.RevocationSpec) (*v1alpha1.Revocation, error) {
	return cfg.create(ctx, client.NewDryRunClient(c), spec)
}

func (cfg Config) create(ctx context.Context, c client.Client, spec v1alpha1.RevocationSpec) (*v1alpha1.Revocation, error) {
	created := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{GenerateName: cfg.Which.generateName()}, Spec: *spec.DeepCopy()}
	err := c.Create(ctx, created)
	switch {
	case err == nil:
		return created, nil
	case apierrors.IsForbidden(err):
		return nil, exit.WithNext(fmt.Errorf("revoking: %w", err),
			"It requires create on revocations.certplane.dev, and the right to revoke on each signer:",
			"  certplane grant revoke --signer SIGNER --user USER",
			"Who may: "+cfg.Command("who-can", "revoke", "SIGNER"))
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.atMost"):
		return nil, exit.WithNext(exit.Advise("revoking", err), "The number has changed: nothing was revoked. Run the command again.")
	}
	return nil, exit.Advise("revoking", err)
}
