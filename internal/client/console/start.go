package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/hosts"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/explain"
)

// Limits of the start page: it must not cost more than the pages to which it leads.
const (
	// maxCounted is the maximum number of waiting requests, and of issuers of a kind, to
	// read.
	maxCounted = 200
	// maxEnding is the maximum number of certificates to read for the bars.
	maxEnding = 2000
	// maxNewer is the maximum number of lookups of newer certificates.
	maxNewer = 20
	// weeksShown is the number of weeks with a bar.
	weeksShown = 13
	oneWeek    = 7 * 24 * time.Hour
)

// figure is a number on the start page. It links to the page with the counted objects.
type figure struct {
	Number, Text, Link string
	// State is good or bad.
	State string
}

// week is a bar: the number of certificates that expire in a week.
type week struct {
	// From is the first day, Link leads to the certificates.
	From, Link string
	Count      int
	// Percent is the length of the bar.
	Percent int
}

// serveStart shows objects that need attention, among those that the user may read.
func (u *user) serveStart(w http.ResponseWriter, r *http.Request) {
	v := view{Title: "Start", Lead: "Objects that need attention, as far as you may read them."}
	parts := []func(context.Context) (*figure, error){u.waitingFigure, nil, u.issuersFigure, u.hostsFigure}
	parts[1] = func(ctx context.Context) (found *figure, err error) {
		found, v.Weeks, err = u.ending(ctx)
		return found, err
	}
	figures, errs := make([]*figure, len(parts)), make([]error, len(parts))
	var reading sync.WaitGroup
	for i, part := range parts {
		reading.Go(func() { figures[i], errs[i] = part(r.Context()) })
	}
	reading.Wait()
	for i, err := range errs {
		switch {
		case apierrors.IsForbidden(err) || served.IsMissing(err) || errors.Is(err, certificates.ErrNoInventory):
		case err != nil:
			u.failCall(w, r, "", err)
			return
		case figures[i] != nil:
			v.Figures = append(v.Figures, *figures[i])
		}
	}
	if len(v.Figures) == 0 {
		v.Lead = "You may not read any of the objects that this page counts."
	}
	u.show(w, r, v)
}

// figureOf returns a number that is good if it is 0. more is true if the count is
// incomplete.
func (u *user) figureOf(count int, more bool, text, link string) *figure {
	f := &figure{Number: thousands(count), Text: text, Link: u.cfg.Base + link, State: "good"}
	if count > 0 || more {
		f.State = "bad"
	}
	if more {
		f.Number += " or more"
	}
	return f
}

// waitingFigure counts the requests that wait for the user.
func (u *user) waitingFigure(ctx context.Context) (*figure, error) {
	found, err := inbox.List(ctx, u.api, inbox.Query{Limit: maxCounted})
	if err != nil {
		return nil, err
	}
	count := 0
	for _, e := range found.Requests {
		if e.YouMayDecide == explain.Yes {
			count++
		}
	}
	return u.figureOf(count, found.Total > maxCounted, "requests wait for you", requestsPath), nil
}

// ending counts certificates that expire soon without a newer one, and certificates that
// expire in each of the next weeks.
func (u *user) ending(ctx context.Context) (*figure, []week, error) {
	found, more, err := certificates.Find(ctx, u.api, certificates.Config{
		Expiring: weeksShown * oneWeek, WithoutOwn: true, Limit: maxEnding, Now: u.now,
	})
	if err != nil {
		return nil, nil, err
	}
	late, moreLate, err := certificates.Unrenewed(ctx, u.api, found, u.now, u.now.Add(oneWeek), maxNewer)
	if err != nil {
		return nil, nil, err
	}
	moreLate = moreLate || more && found[len(found)-1].Certificate.NotAfter.Before(new(metav1.NewTime(u.now.Add(oneWeek))))
	return u.figureOf(len(late), moreLate, "certificates end within 7 days, without a newer one", "issued?expiring=7d"), u.weeks(found, more), nil
}

// weeks returns the bars. more is true if not all certificates were read: incomplete
// weeks then have no bar.
func (u *user) weeks(found []inventoryv1alpha1.IssuedCertificate, more bool) []week {
	shown := make([]week, weeksShown)
	for i := range shown {
		shown[i].From = u.now.Add(time.Duration(i) * oneWeek).UTC().Format(time.DateOnly)
		shown[i].Link = fmt.Sprintf("%sissued?expiring=%dd", u.cfg.Base, 7*(i+1))
		if i > 0 {
			shown[i].Link += fmt.Sprintf("&after=%dd", 7*i)
		}
	}
	for i := range found {
		if n := int(found[i].Certificate.NotAfter.Sub(u.now) / oneWeek); n < weeksShown {
			shown[n].Count++
		}
	}
	if more {
		last := int(found[len(found)-1].Certificate.NotAfter.Sub(u.now) / oneWeek)
		shown = shown[:min(max(last, 1), weeksShown)]
	}
	most := 1
	for _, w := range shown {
		most = max(most, w.Count)
	}
	for i := range shown {
		shown[i].Percent = (100*shown[i].Count + most - 1) / most
	}
	return shown
}

// issuersFigure counts the issuers and signers that are not ready.
func (u *user) issuersFigure(ctx context.Context) (*figure, error) {
	count, more, listed := 0, false, 0
	var forbidden error
	issuers, clusterIssuers, declared := &cmv1.IssuerList{}, &cmv1.ClusterIssuerList{}, &v1alpha1.SignerList{}
	for _, list := range []client.ObjectList{issuers, clusterIssuers, declared} {
		err := u.api.List(ctx, list, client.Limit(maxCounted))
		switch {
		case apierrors.IsForbidden(err) || served.IsMissing(err):
			forbidden = err
			continue
		case err != nil:
			return nil, err
		}
		listed++
		more = more || list.GetContinue() != ""
	}
	if listed == 0 {
		return nil, forbidden
	}
	issuersUnready := 0
	ready := func(conditions []cmv1.IssuerCondition) bool {
		for _, c := range conditions {
			if c.Type == cmv1.IssuerConditionReady {
				return c.Status == cmmeta.ConditionTrue
			}
		}
		return false
	}
	for _, issuer := range issuers.Items {
		if !ready(issuer.Status.Conditions) {
			issuersUnready++
		}
	}
	for _, issuer := range clusterIssuers.Items {
		if !ready(issuer.Status.Conditions) {
			issuersUnready++
		}
	}
	for _, signer := range declared.Items {
		if !meta.IsStatusConditionTrue(signer.Status.Conditions, v1alpha1.Ready) {
			count++
		}
	}
	link := "signers"
	if issuersUnready > 0 {
		link = "issuers"
	}
	return u.figureOf(count+issuersUnready, more, "issuers and signers are not ready", link), nil
}

// hostsFigure counts the hosts whose agents do not report.
func (u *user) hostsFigure(ctx context.Context) (*figure, error) {
	found, err := hosts.List(ctx, u.typed)
	if err != nil {
		return nil, err
	}
	count := 0
	for _, h := range found {
		if h.State == hosts.NotReady {
			count++
		}
	}
	return u.figureOf(count, false, "hosts are silent", "hosts"), nil
}
