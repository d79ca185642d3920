package console

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/hosts"
	"github.com/certplane/certplane/internal/client/cli/trust"
	"github.com/certplane/certplane/internal/pki"
)

// serveTrust shows the roots in all ClusterTrustBundles.
func (u *user) serveTrust(w http.ResponseWriter, r *http.Request) {
	t := table{Title: "Roots", None: "No roots are published.", Columns: []string{"Signer", "Subject", "Ends", "In", "State", "Bundle", "SHA-256 fingerprint", "Roots"}}
	bundles, err := trust.List(r.Context(), u.api, "")
	switch {
	case errors.Is(err, certmanager.ErrNoResource):
		t.Problem = "This server does not serve ClusterTrustBundles."
	case apierrors.IsForbidden(err):
		t.Problem = "You may not list ClusterTrustBundles."
	case err != nil:
		u.failCall(w, r, "listing trust bundles", err)
		return
	}
	next := u.nextCAs(r.Context())
	for _, bundle := range bundles {
		roots, err := trust.Roots([]certificatesv1.ClusterTrustBundle{bundle})
		if err != nil {
			t.Rows = append(t.Rows, texts(bundle.Spec.SignerName, "cannot be read: "+err.Error(), "", "", "invalid", bundle.Name, "", ""))
			continue
		}
		for _, root := range roots {
			state := root.State(u.now)
			if from, ok := next[caOf(bundle.Spec.SignerName, hex.EncodeToString(root.SubjectKeyId))]; ok {
				state = "next, signs from " + from
			}
			r := texts(bundle.Spec.SignerName, root.Subject.String(), at(root.NotAfter), u.left(root.NotAfter),
				state, bundle.Name, pki.Fingerprint(root.Certificate), "")
			r[5].State, r[6].State = digits, copied
			if bundle.Spec.SignerName != "" {
				r[7] = cell{Text: "PEM", Link: u.cfg.Base + "trust/" + escaped(bundle.Spec.SignerName)}
			}
			t.Rows = append(t.Rows, r)
		}
	}
	u.show(w, r, view{
		Title: "Trust", Lead: "The roots that verify certificates of each signer. PEM is a file with all roots of the signer; 'certplane trust SIGNER' writes the same.",
		Tables: []table{t}, watched: []string{"clustertrustbundles.certificates.k8s.io"},
	})
}

// caOf returns the key of a CA: its signer and its subject key identifier.
func caOf(signer, keyID string) string { return signer + " " + keyID }

// nextCAs returns the times from which next CAs of Signers sign, by caOf. It is empty if
// the user may not list Signers.
func (u *user) nextCAs(ctx context.Context) map[string]string {
	var declared v1alpha1.SignerList
	if err := u.api.List(ctx, &declared); err != nil {
		return nil
	}
	next := map[string]string{}
	for i := range declared.Items {
		ca := declared.Items[i].Status.NextCA
		if ca == nil || ca.SubjectKeyID == "" {
			continue
		}
		from := "an unknown time"
		if ca.SignsFrom != nil {
			from = at(ca.SignsFrom.Time)
		}
		next[caOf(declared.Items[i].Spec.SignerName, ca.SubjectKeyID)] = from
	}
	return next
}

// serveRoots serves the roots of a signer as a file.
func (u *user) serveRoots(w http.ResponseWriter, r *http.Request) {
	signer := r.PathValue("signer")
	bundles, err := trust.List(r.Context(), u.api, signer)
	if err != nil {
		u.failCall(w, r, "reading the trust bundles of "+signer, err)
		return
	}
	roots, err := trust.Roots(bundles)
	switch {
	case err != nil:
		u.fail(w, r, http.StatusBadGateway, err.Error())
		return
	case signer == "" || len(roots) == 0:
		u.fail(w, r, http.StatusNotFound, "No roots of the signer "+signer+" are published.")
		return
	}
	var certs []*x509.Certificate
	for _, root := range roots {
		certs = append(certs, root.Certificate)
	}
	download(w, "application/x-pem-file", strings.ReplaceAll(signer, "/", "-")+"-roots.pem", pki.EncodeCertificates(certs...))
}

// download sends a file that browsers save.
func download(w http.ResponseWriter, contentType, name string, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	_, _ = w.Write(data) // the browser may be gone
}

// serveHosts shows the hosts of agents.
func (u *user) serveHosts(w http.ResponseWriter, r *http.Request) {
	t := table{Title: "Hosts", None: "No hosts of agents found. To let one join: certplane token create --node NAME", Columns: hosts.Columns(true)}
	found, err := hosts.List(r.Context(), u.typed)
	switch {
	case apierrors.IsForbidden(err):
		t.Problem = "You may not list nodes, pods and leases, which this page needs."
	case err != nil:
		u.failCall(w, r, "", err)
		return
	}
	for _, h := range found {
		t.Rows = append(t.Rows, texts(h.Row(true, u.now)...))
	}
	u.show(w, r, view{
		Title: "Hosts", Lead: "Hosts on which 'certplane agent' keeps certificates.",
		Tables: []table{t}, watched: []string{"nodes", "pods"},
	})
}
