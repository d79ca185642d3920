// Package resume lets a restored server sign revocation lists again.
package resume

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/crl"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
)

// Config is one call of Run.
type Config struct {
	// From are files and URLs of published lists, PEM or DER. Without any, nothing was revoked
	// since the backup.
	From []string
	// Client reaches the server.
	Client client.Client
	Now    time.Time
	Stdout io.Writer
}

// Run revokes what published lists name, then ends the hold on lists.
func Run(ctx context.Context, cfg Config) error {
	mark := &corev1.ConfigMap{}
	err := cfg.Client.Get(ctx, client.ObjectKey{Namespace: rights.ServeNamespace, Name: rights.RestoredStore}, mark)
	if apierrors.IsNotFound(err) {
		_, err := fmt.Fprintln(cfg.Stdout, "Revocation lists are not on hold: there is nothing to do.")
		return err
	}
	if err != nil {
		return exit.Advise("reading whether revocation lists are on hold", err)
	}
	lists := &inventoryv1alpha1.RevocationListList{}
	if err := cfg.Client.List(ctx, lists); err != nil {
		return exit.Advise("listing revocationlists.inventory.certplane.dev", err)
	}
	for _, from := range cfg.From {
		published, err := crl.Read(ctx, from)
		if err != nil {
			return err
		}
		for _, list := range published {
			ca, err := cfg.check(list, lists.Items)
			if err == nil {
				err = cfg.revoke(ctx, list, ca)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
		}
	}
	if err := cfg.Client.Delete(ctx, mark, client.Preconditions{UID: &mark.UID}); err != nil {
		return exit.Advise("ending the hold on revocation lists", err)
	}
	_, err = fmt.Fprintln(cfg.Stdout, "Revocation lists are signed again.")
	return err
}

// check returns the CA of a published list. The list must be one of the server's CAs, and not
// from the future: the number of the next list must be greater.
func (cfg Config) check(list *x509.RevocationList, known []inventoryv1alpha1.RevocationList) (*x509.Certificate, error) {
	for _, k := range known {
		chain, err := pki.ParseBundle([]byte(k.CACertificates))
		if err != nil || len(chain) == 0 || list.CheckSignatureFrom(chain[0]) != nil {
			continue
		}
		if list.Number == nil || list.Number.Cmp(big.NewInt(cfg.Now.UnixMilli())) >= 0 {
			return nil, fmt.Errorf("the list of %s has a number that is later than now: set the clock", list.Issuer)
		}
		return chain[0], nil
	}
	return nil, fmt.Errorf("signed by a CA that this server does not know: %s", list.Issuer)
}

// most is how many certificates a Revocation can name.
const most = 1000

// revoke creates Revocations of the certificates that a published list names. Those that are
// revoked already stay as they are.
func (cfg Config) revoke(ctx context.Context, list *x509.RevocationList, ca *x509.Certificate) error {
	id := hex.EncodeToString(ca.SubjectKeyId)
	by := map[pki.Reason][]v1alpha1.RevokedCertificate{}
	for _, entry := range list.RevokedCertificateEntries {
		reason := pki.Reason(entry.ReasonCode)
		if _, err := pki.ParseReason(reason.String()); err != nil {
			reason = pki.ReasonUnspecified
		}
		by[reason] = append(by[reason], v1alpha1.RevokedCertificate{SerialNumber: entry.SerialNumber.Text(16), AuthorityKeyID: id})
	}
	recorded, before := int32(0), int32(0)
	for _, reason := range pki.Reasons() {
		for part := range slices.Chunk(by[reason], most) {
			r := &v1alpha1.Revocation{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "restored-" + revocation.ListID(ca)[:8] + "-"},
				Spec: v1alpha1.RevocationSpec{
					Certificates: part, Reason: v1alpha1.RevocationReason(reason.String()), Message: "restored from list " + list.Number.String() + " of " + ca.Subject.String(),
				},
			}
			if err := cfg.create(ctx, r); err != nil {
				return err
			}
			recorded, before = recorded+r.Status.Recorded, before+r.Status.AlreadyRevoked
		}
	}
	_, err := fmt.Fprintf(cfg.Stdout, "List %s of %s: %d certificates revoked again, %d were known\n", list.Number, ca.Subject, recorded, before)
	return err
}

// create creates a Revocation. It omits certificates that have ended.
func (cfg Config) create(ctx context.Context, r *v1alpha1.Revocation) error {
	for {
		err := cfg.Client.Create(ctx, r)
		if err == nil {
			return nil
		}
		ended := endedIn(err)
		if len(ended) == 0 {
			return exit.Advise("creating a Revocation", err)
		}
		var left []v1alpha1.RevokedCertificate
		for n, c := range r.Spec.Certificates {
			if !slices.Contains(ended, n) {
				left = append(left, c)
			}
		}
		if r.Spec.Certificates = left; len(left) == 0 {
			return nil
		}
	}
}

// place is the name of the field with a certificate.
var place = regexp.MustCompile(`^spec\.certificates\[(\d+)\]$`)

// endedIn returns the places of the certificates that an error says have ended.
func endedIn(err error) (places []int) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		if match := place.FindStringSubmatch(cause.Field); match != nil && strings.Contains(cause.Message, "ended on ") {
			n, _ := strconv.Atoi(match[1]) // digits
			places = append(places, n)
		}
	}
	return places
}
