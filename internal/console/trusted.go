package console

import (
	"errors"
	"net/http"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/hosts"
	"github.com/certplane/certplane/internal/cli/trust"
	"github.com/certplane/certplane/internal/pki"
)

// serveTrust shows the roots in all ClusterTrustBundles.
func (u *user) serveTrust(w http.ResponseWriter, r *http.Request) {
	t := table{Title: "Roots", None: "No roots are published.", Columns: []string{"Signer", "Subject", "Ends", "In", "State", "Bundle", "SHA-256 fingerprint"}}
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
	for _, bundle := range bundles {
		roots, err := trust.Roots([]certificatesv1.ClusterTrustBundle{bundle})
		if err != nil {
			t.Rows = append(t.Rows, texts(bundle.Spec.SignerName, "cannot be read: "+err.Error(), "", "", "invalid", bundle.Name, ""))
			continue
		}
		for _, root := range roots {
			r := texts(bundle.Spec.SignerName, root.Subject.String(), at(root.NotAfter), u.left(root.NotAfter),
				root.State(u.now), bundle.Name, pki.Fingerprint(root.Certificate))
			r[5].State, r[6].State = digits, digits
			t.Rows = append(t.Rows, r)
		}
	}
	u.show(w, r, view{
		Title: "Trust", Lead: "The roots that verify certificates of each signer. 'certplane trust SIGNER' writes them to a file.",
		Tables: []table{t}, watched: []string{"clustertrustbundles.certificates.k8s.io"},
	})
}

// serveHosts shows the hosts of agents.
func (u *user) serveHosts(w http.ResponseWriter, r *http.Request) {
	t := table{Title: "Hosts", None: "There are no hosts of agents. To let one join: certplane token create --node NAME", Columns: hosts.Columns(true)}
	found, err := hosts.List(r.Context(), u.typed)
	switch {
	case apierrors.IsForbidden(err):
		t.Problem = "You may not list nodes, pods and leases, which say how hosts are."
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
