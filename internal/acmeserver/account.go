package acmeserver

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// ownAccount refuses the URL of another account than the one that has signed.
func (x *exchange) ownAccount() error {
	if x.args[0] != x.account.Name {
		return notFound()
	}
	return nil
}

// accountResource answers with the account, or changes it (RFC 8555 sections 7.3.2
// and 7.3.6).
func (x *exchange) accountResource() (*answer, error) {
	if err := x.ownAccount(); err != nil {
		return nil, err
	}
	if x.message.IsPostAsGet() {
		return ok(x.accountView(x.account)), nil
	}
	var asked struct {
		Contact *[]string `json:"contact"`
		Status  string    `json:"status"`
		Agreed  bool      `json:"termsOfServiceAgreed"`
	}
	if p := x.message.Decode(&asked); p != nil {
		return nil, p
	}
	update := acmeorder.AccountUpdate{Contacts: asked.Contact, Status: asked.Status, Agreed: asked.Agreed}
	a, err := x.store.changeAccount(x.ctx, x.account.Name, func(a *v1alpha1.AcmeAccount) (*v1alpha1.AcmeAccountStatus, error) {
		if err := x.stillInForce(a); err != nil {
			return nil, err
		}
		status, p := acmeorder.UpdateAccount(a, update, x.endpoint.Spec(), x.now)
		return status, asError(p)
	})
	if err != nil {
		return nil, err
	}
	if a.Status.State == v1alpha1.AcmeAccountDeactivated {
		x.cancelOrders(a)
	}
	return ok(x.accountView(a)), nil
}

// stillInForce asks the account as it is stored now.
func (x *exchange) stillInForce(a *v1alpha1.AcmeAccount) error {
	facts := x.facts
	facts.Account = a
	return asError(facts.Problem())
}

// cancelOrders ends the open orders of an account that has ended. What is left over
// ends when it expires: it can do nothing.
func (x *exchange) cancelOrders(a *v1alpha1.AcmeAccount) {
	orders, err := x.store.ordersOf(x.ctx, a)
	if err != nil {
		klog.FromContext(x.ctx).Error(err, "Cannot end the orders of an ACME account", "account", a.Name)
		return
	}
	why := rfc8555.NewProblem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the account is deactivated")
	for _, o := range orders {
		if acmeorder.Cancel(o, why, x.now) == nil {
			continue
		}
		read := func() (*v1alpha1.AcmeOrder, error) { return x.store.order(x.ctx, o.Namespace, o.Name) }
		_, err := x.store.changeOrder(x.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
			return acmeorder.Cancel(o, why, x.now), nil
		})
		if err != nil {
			klog.FromContext(x.ctx).Error(err, "Cannot end an order of an ACME account", "account", a.Name, "order", o.Name)
		}
	}
}

// pageSize is how many orders a page has.
const pageSize = 50

// listOrders answers with the URLs of the account's orders, the newest first (RFC
// 8555 section 7.1.2.1).
func (x *exchange) listOrders() (*answer, error) {
	if err := x.ownAccount(); err != nil {
		return nil, err
	}
	if !x.message.IsPostAsGet() {
		return nil, payloadNotEmpty()
	}
	after, err := x.cursor()
	if err != nil {
		return nil, err
	}
	orders, err := x.store.ordersOf(x.ctx, x.account)
	if err != nil {
		return nil, err
	}
	orders = slices.DeleteFunc(orders, func(o *v1alpha1.AcmeOrder) bool {
		return o.Spec.Endpoint != x.endpointName || acmeorder.OrderState(o, x.now) == rfc8555.StateInvalid || after != nil && !after.isBefore(place(o))
	})
	slices.SortFunc(orders, func(a, b *v1alpha1.AcmeOrder) int {
		if place(a).isBefore(place(b)) {
			return -1
		}
		return 1
	})
	page := struct {
		Orders []string `json:"orders"`
	}{[]string{}}
	a := &answer{status: http.StatusOK}
	for i, o := range orders {
		if i == pageSize {
			a.links = append(a.links, link(x.url("acct", x.account.Name, "orders")+"?cursor="+place(orders[i-1]).text(), "next"))
			break
		}
		page.Orders = append(page.Orders, x.url("order", o.Name))
	}
	a.body = page
	return a, nil
}

func payloadNotEmpty() error {
	return malformed("the payload must be empty: there is nothing to change here")
}

// orderPlace is where an order is in the list: it stays there, whatever becomes of
// the others.
type orderPlace struct {
	created int64
	name    string
}

func place(o *v1alpha1.AcmeOrder) orderPlace { return orderPlace{o.CreationTimestamp.Unix(), o.Name} }

func (p orderPlace) isBefore(other orderPlace) bool {
	if p.created != other.created {
		return p.created > other.created
	}
	return p.name < other.name
}

func (p orderPlace) text() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.created, 10) + "." + p.name))
}

// cursor returns the last order of the page before, nil if the first page is wanted.
func (x *exchange) cursor() (*orderPlace, error) {
	if x.r.URL.RawQuery == "" {
		return nil, nil
	}
	bad := malformed("the cursor is not one of this server")
	text, isCursor := strings.CutPrefix(x.r.URL.RawQuery, "cursor=")
	data, err := jws.DecodeBase64URL(text, false)
	if !isCursor || err != nil {
		return nil, bad
	}
	created, name, _ := strings.Cut(string(data), ".")
	number, err := strconv.ParseInt(created, 10, 64)
	if p := (orderPlace{number, name}); err == nil && isID(name) && p.text() == text {
		return &p, nil
	}
	return nil, bad
}

// blocked reports whether a key may not be that of an account, since a certificate
// with it was revoked for its compromise.
func (x *exchange) blocked(ctx context.Context, key *jws.Key) error {
	var failed error
	if x.store.keyFacts(ctx, x.endpointName, &failed).Blocked(pki.KeyFingerprint(key.Public())) {
		return problem(http.StatusBadRequest, rfc8555.ProblemBadPublicKey, "a certificate with this key was revoked since the key is compromised: make a new key")
	}
	return failed
}
