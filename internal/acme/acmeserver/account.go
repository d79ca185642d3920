package acmeserver

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/keylock"
)

// accounts makes, changes and shows accounts.
type accounts struct {
	store    *store
	keys     *accountKeys
	bindings *bindings
	reviews  *reviews
	limits   *limits
	counts   *accountCounts
	// registering are the locks of endpoints that get accounts.
	registering keylock.Locks
}

// accountResource answers with the account, or changes it (RFC 8555 sections 7.3.2
// and 7.3.6).
func (s *accounts) accountResource(c *call) (*answer, error) {
	if err := c.ownAccount(); err != nil {
		return nil, err
	}
	if c.message.IsPostAsGet() {
		return ok(c.accountView(c.account)), nil
	}
	var asked struct {
		Contact *[]string `json:"contact"`
		Status  string    `json:"status"`
		Agreed  bool      `json:"termsOfServiceAgreed"`
	}
	if p := c.message.Decode(&asked); p != nil {
		return nil, p
	}
	update := acmeorder.AccountUpdate{Contacts: asked.Contact, Status: asked.Status, Agreed: asked.Agreed}
	a, err := s.store.changeAccount(c.ctx, c.account.Name, func(a *v1alpha1.AcmeAccount) (*v1alpha1.AcmeAccountStatus, error) {
		if err := c.stillInForce(a); err != nil {
			return nil, err
		}
		status, p := acmeorder.UpdateAccount(a, update, c.endpoint.Spec(), c.now)
		return status, asError(p)
	})
	if err != nil {
		return nil, err
	}
	if a.Status.State == v1alpha1.AcmeAccountDeactivated {
		s.cancelOrders(c, a)
	}
	return ok(c.accountView(a)), nil
}

// cancelOrders ends the open orders of an account that has ended. What is left over
// ends when it expires: it can do nothing.
func (s *accounts) cancelOrders(c *call, a *v1alpha1.AcmeAccount) {
	orders, err := s.store.ordersOf(c.ctx, a)
	if err != nil {
		klog.FromContext(c.ctx).Error(err, "Cannot end the orders of an ACME account", "account", a.Name)
		return
	}
	why := rfc8555.NewProblem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the account is deactivated")
	for _, o := range orders {
		if acmeorder.Cancel(o, why, c.now) == nil {
			continue
		}
		read := func() (*v1alpha1.AcmeOrder, error) { return s.store.order(c.ctx, o.Namespace, o.Name) }
		_, err := s.store.changeOrder(c.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
			return acmeorder.Cancel(o, why, c.now), nil
		})
		if err != nil {
			klog.FromContext(c.ctx).Error(err, "Cannot end an order of an ACME account", "account", a.Name, "order", o.Name)
		}
	}
}

// pageSize is how many orders a page has.
const pageSize = 50

// listOrders answers with the URLs of the account's orders, the newest first (RFC
// 8555 section 7.1.2.1).
func (s *accounts) listOrders(c *call) (*answer, error) {
	if err := c.ownAccount(); err != nil {
		return nil, err
	}
	if !c.message.IsPostAsGet() {
		return nil, payloadNotEmpty()
	}
	after, err := c.cursor()
	if err != nil {
		return nil, err
	}
	orders, err := s.store.ordersOf(c.ctx, c.account)
	if err != nil {
		return nil, err
	}
	orders = slices.DeleteFunc(orders, func(o *v1alpha1.AcmeOrder) bool {
		return o.Spec.Endpoint != c.endpointName || acmeorder.OrderState(o, c.now) == rfc8555.StateInvalid || after != nil && !after.isBefore(place(o))
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
			a.links = append(a.links, link(c.url("acct", c.account.Name, "orders")+"?cursor="+place(orders[i-1]).text(), "next"))
			break
		}
		page.Orders = append(page.Orders, c.url("order", o.Name))
	}
	a.body = page
	return a, nil
}

func payloadNotEmpty() error {
	return malformed("the payload must be empty: there is nothing to change here")
}

// orderPlace is the position of an order in the list. It does not change when other orders
// are removed.
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
func (c *call) cursor() (*orderPlace, error) {
	if c.r.URL.RawQuery == "" {
		return nil, nil
	}
	bad := malformed("the cursor is not one of this server")
	text, isCursor := strings.CutPrefix(c.r.URL.RawQuery, "cursor=")
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
