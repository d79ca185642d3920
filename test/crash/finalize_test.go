package crash

import (
	"crypto/x509"
	"fmt"
	"net"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
)

// finalizeKills is how often TestKillWhileFinalizing kills.
const finalizeKills = 5

// A server without others is killed when the request of an order is stored with its
// certificate, and the end of the order is not or has just been. The client tries again, and
// gets the certificate of that request.
func TestKillWhileFinalizing(t *testing.T) {
	t.Parallel()
	h := &host{role: role{Dir: shortDir(t), Front: ownAddress(t)}}
	h.process = startReady(t, h.role)
	r := &replicas{T: t, servers: []*host{h}, balancer: newBalancer(t, []string{h.role.Front})}
	r.declare()
	c := r.register()
	left := 0
	for n := range finalizeKills {
		of := address(n)
		order, err := r.prove(t.Context(), c, of)
		if err != nil {
			t.Fatal(err)
		}
		csr, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(of)}}, apitest.NewKey(t))
		if err != nil {
			t.Fatal(err)
		}
		killed := make(chan struct{})
		stored := r.requests()
		go func() {
			defer close(killed)
			for e := range stored.ResultChan() {
				if e.Type == watch.Added {
					break
				}
			}
			h.process.kill()
		}()
		_, _, err = c.CreateOrderCert(t.Context(), order.FinalizeURL, csr, false)
		<-killed
		stored.Stop()
		if err != nil {
			left++
		}
		h.process = startReady(t, h.role)
		var cert *x509.Certificate
		err = again(t.Context(), func() error {
			chain, _, err := c.CreateOrderCert(t.Context(), order.FinalizeURL, csr, false)
			if err == nil {
				cert, err = x509.ParseCertificate(chain[0])
			}
			return err
		})
		if err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		r.verify(of, cert, fmt.Sprintf("round %d", n))
	}
	t.Logf("%d of %d clients were not answered", left, finalizeKills)
}

// requests watches the requests that are made from now on.
func (r *replicas) requests() watch.Interface {
	r.Helper()
	w := &acmetest.World{TB: r.T, Server: r.api(0)}
	w.Connect()
	objects, err := client.NewWithWatch(w.Server.Admin(r), client.Options{Scheme: w.Objects.Scheme()})
	if err != nil {
		r.Fatal(err)
	}
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := objects.List(r.Context(), list); err != nil {
		r.Fatal(err)
	}
	stored, err := objects.Watch(r.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		r.Fatal(err)
	}
	return stored
}
