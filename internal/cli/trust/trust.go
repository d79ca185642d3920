// Package trust writes the roots of a signer.
package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
)

// look is the time between two looks for the first bundle of a signer.
const look = 200 * time.Millisecond

// Formats are the values of Config.Output.
var Formats = []string{"pem", "der", "table"}

// Config says whose roots to write, and how.
type Config struct {
	// Signer is the name of the signer.
	Signer string
	// Output is one of Formats.
	Output string
	// Connect connects to the server.
	Connect func() (explain.Reader, error)
	// Kubectl returns a command line of kubectl for the same server.
	Kubectl func(words ...string) string
	// Wait is how long to wait for the first bundle: a signer publishes its roots a moment
	// after it begins to sign.
	Wait time.Duration
	// Now is the current time.
	Now time.Time
	// Stdout is where the roots are written.
	Stdout io.Writer
}

// Root is a certificate that at least one bundle of the signer contains.
type Root struct {
	*x509.Certificate
	// bundle is the first bundle with it.
	bundle string
	// until is set if all bundles with it have been superseded.
	until string
}

// Run writes the roots in all ClusterTrustBundles of a signer, each once.
func Run(ctx context.Context, cfg Config) error {
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	var roots []Root
	err = wait.PollUntilContextTimeout(ctx, look, cfg.Wait, true, func(context.Context) (bool, error) {
		bundles, err := List(ctx, api, cfg.Signer)
		if err != nil {
			return false, err
		}
		roots, err = Roots(bundles)
		return len(roots) > 0, err
	})
	switch {
	case errors.Is(err, certmanager.ErrNoResource):
		return errors.New("the server has no ClusterTrustBundles")
	case wait.Interrupted(err) && ctx.Err() == nil:
		return exit.WithNext(fmt.Errorf("there is no ClusterTrustBundle of the signer %s", cfg.Signer),
			"To see which signers have one:", "  "+cfg.Kubectl("get", "clustertrustbundles"))
	case err != nil:
		return exit.Advise("reading the trust bundles of "+cfg.Signer, err)
	}
	return cfg.write(roots)
}

// List returns the bundles of a signer, or of all signers if that is empty, in any version
// that the server has. It returns certmanager.ErrNoResource if the server has none.
func List(ctx context.Context, api explain.Reader, signer string) ([]certificatesv1.ClusterTrustBundle, error) {
	kind := schema.GroupKind{Group: certificatesv1.GroupName, Kind: "ClusterTrustBundle"}
	var options []client.ListOption
	if signer != "" {
		options = append(options, client.MatchingFields{"spec.signerName": signer})
	}
	found, err := explain.ListAnyVersion(ctx, api, kind, options...)
	if err != nil {
		return nil, err
	}
	var bundles []certificatesv1.ClusterTrustBundle
	for _, item := range found {
		var bundle certificatesv1.ClusterTrustBundle // the fields are the same in all versions
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &bundle); err != nil {
			return nil, err
		}
		bundles = append(bundles, bundle)
	}
	return bundles, nil
}

// Roots returns the certificates of bundles, those that are valid longest first.
func Roots(bundles []certificatesv1.ClusterTrustBundle) ([]Root, error) {
	var roots []Root
	for _, bundle := range bundles {
		certs, err := pki.ParseBundle([]byte(bundle.Spec.TrustBundle))
		if err != nil {
			return nil, fmt.Errorf("reading the ClusterTrustBundle %s: %w", bundle.Name, err)
		}
		until := bundle.Annotations[rollover.UntilAnnotation]
		for _, cert := range certs {
			at := slices.IndexFunc(roots, func(r Root) bool { return r.Equal(cert) })
			switch {
			case at < 0:
				roots = append(roots, Root{cert, bundle.Name, until})
			case until == "":
				roots[at].bundle, roots[at].until = bundle.Name, ""
			}
		}
	}
	slices.SortStableFunc(roots, func(a, b Root) int { return b.NotAfter.Compare(a.NotAfter) })
	return roots, nil
}

func (cfg Config) write(roots []Root) error {
	var data []byte
	switch cfg.Output {
	case "der":
		if len(roots) > 1 {
			return exit.WithNext(fmt.Errorf("the signer %s has %d roots, and a DER file holds one certificate", cfg.Signer, len(roots)), "To write all of them: -o pem")
		}
		data = roots[0].Raw
	case "table":
		data = table(roots, cfg.Now)
	default:
		for _, r := range roots {
			data = append(data, pki.EncodeCertificates(r.Certificate)...)
		}
	}
	_, err := io.Copy(cfg.Stdout, bytes.NewReader(data))
	return err
}

func table(roots []Root, now time.Time) []byte {
	rows := [][]string{{"SUBJECT", "EXPIRES", "IN", "STATE", "SHA-256 FINGERPRINT", "BUNDLE"}}
	for _, r := range roots {
		rows = append(rows, []string{
			r.Subject.String(), r.NotAfter.UTC().Format(time.DateOnly), print.Span(r.NotAfter.Sub(now)), r.State(now), pki.Fingerprint(r.Certificate), r.bundle,
		})
	}
	return []byte(print.Columns(rows))
}

// State returns whether a root is to be trusted.
func (r Root) State(now time.Time) string {
	switch {
	case now.After(r.NotAfter):
		return "expired"
	case r.until != "":
		return "superseded, trusted until " + r.until
	}
	return "current"
}
