package hostile

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"golang.org/x/crypto/acme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
)

const century = 100 * 365 * 24 * time.Hour

// records has the server write as much as it does for certificates: they have many names
// and are valid for a century, and nothing but their records stays. The attack is armed
// after begun certificates.
func records(workers int, begun int64) attackFunc {
	return func(ctx context.Context, w *world, cfg *rest.Config, counts *tally, armed func()) error {
		who, err := client(cfg, false)
		if err != nil {
			return err
		}
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			return err
		}
		root, err := pki.NewRoot(pki.UnrecordedSigning, "own", key, 2*century, time.Now())
		if err != nil {
			return err
		}
		keyPEM, err := pki.EncodePrivateKey(key)
		if err != nil {
			return err
		}
		secret, issuer := newCASecret("own", keyPEM, root.Certificate()), newIssuer("own")
		if err := w.do(ctx, who, http.MethodPost, inNamespace(team, coreVersion, "secrets"), secret, nil); err != nil {
			return err
		}
		if err := w.do(ctx, who, http.MethodPost, inNamespace(team, certManagerVersion, "issuers"), issuer, nil); err != nil {
			return err
		}
		var group sync.WaitGroup
		var made atomic.Int64
		for range workers {
			group.Go(func() {
				for ctx.Err() == nil {
					counts.add(w.leaveRecord(ctx, who))
					if made.Add(1) == begun {
						armed()
					}
				}
			})
		}
		group.Wait()
		return nil
	}
}

// leaveRecord gets a certificate and deletes its request.
func (w *world) leaveRecord(ctx context.Context, who *http.Client) string {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return err.Error()
	}
	csr, err := pki.NewRequest(pki.Subject{DNSNames: randomNames(200, "example.com")}, key)
	if err != nil {
		return err.Error()
	}
	cr := &cmv1.CertificateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "record-"},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "own"}, Request: csr, Duration: &metav1.Duration{Duration: century}},
	}
	path := inNamespace(team, certManagerVersion, "certificaterequests")
	if err := w.do(ctx, who, http.MethodPost, path, cr, cr); err != nil {
		pause(ctx)
		return "no request"
	}
	for tries := 0; len(cr.Status.Certificate) == 0 && tries < 100 && ctx.Err() == nil; tries++ {
		pause(ctx)
		if w.do(ctx, who, http.MethodGet, path+"/"+cr.Name, nil, cr) != nil {
			break
		}
	}
	_ = w.do(ctx, who, http.MethodDelete, path+"/"+cr.Name, nil, nil)
	if len(cr.Status.Certificate) == 0 {
		return "no certificate"
	}
	return "a certificate"
}

func randomNames(many int, domain string) []string {
	var names []string
	for range many {
		label := make([]byte, 30)
		rand.Read(label) // it never fails
		names = append(names, hex.EncodeToString(label)+"."+domain)
	}
	return names
}

// strangersOrders makes orders with as many names as there can be, of as many accounts as
// there can be, and proves none. The attack is armed after begun orders.
func strangersOrders(workers int, begun int64) attackFunc {
	return func(ctx context.Context, _ *world, cfg *rest.Config, counts *tally, armed func()) error {
		var group sync.WaitGroup
		var made atomic.Int64
		for range workers {
			who, err := client(cfg, false)
			if err != nil {
				return err
			}
			group.Go(func() {
				for ctx.Err() == nil {
					orderAll(ctx, &acme.Client{HTTPClient: who, DirectoryURL: cfg.Host + acmePath + "directory", RetryBackoff: func(int, *http.Request, *http.Response) time.Duration { return -1 }}, counts, func() {
						if made.Add(1) == begun {
							armed()
						}
					})
				}
			})
		}
		group.Wait()
		return nil
	}
}

// orderAll makes an account and orders until it is refused.
func orderAll(ctx context.Context, as *acme.Client, counts *tally, ordered func()) {
	defer pause(ctx)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		counts.add(err.Error())
		return
	}
	as.Key = key
	if _, err := as.Register(ctx, &acme.Account{}, acme.AcceptTOS); err != nil {
		counts.add("no account")
		return
	}
	for ctx.Err() == nil {
		if _, err := as.AuthorizeOrder(ctx, acme.DomainIDs(randomNames(100, "corp.example")...)); err != nil {
			counts.add("no order")
			return
		}
		counts.add("an order")
		ordered()
	}
}

// fills are attacks that have the server write for the attacker until its namespace has its
// share of the store.
var fills = []attack{
	{"records of certificates", []string{editor}, records(4, 150)},
	{"orders that nobody proves", []string{acmeClient}, strangersOrders(4, 120)},
}
