package nodelifecycle

import (
	"context"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/pki"
)

// takeovers reports certificates that give the name of a node to another key
// than the node's own. A node renews its certificate as itself; all others who
// get a certificate of its name, such as the holder of a bootstrap token, take
// the name over.
type takeovers struct {
	*reconciler
	// began is when the process began: what was issued before has been reported.
	began time.Time
}

func (r *reconciler) addTakeovers(mgr ctrl.Manager) error {
	t := &takeovers{reconciler: r, began: r.Clock.Now().Truncate(time.Second)} // the times of the API have no fractions
	return ctrl.NewControllerManagedBy(mgr).
		Named("node-takeover").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return t.isNews(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return !isIssued(e.ObjectOld) && t.isNews(e.ObjectNew) },
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Complete(t)
}

func isIssued(o client.Object) bool {
	c, ok := o.(*certificatesv1.CertificateSigningRequest)
	return ok && len(c.Status.Certificate) > 0
}

// isNews reports whether a request got its certificate since the process began.
func (t *takeovers) isNews(o client.Object) bool {
	c, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || len(c.Status.Certificate) == 0 {
		return false
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved {
			return !condition.LastUpdateTime.Time.Before(t.began)
		}
	}
	return false
}

// Reconcile reports a certificate of a node that existed before it was
// requested.
func (t *takeovers) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := t.nodes.Get(ctx, request.NamespacedName, csr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	name := takenNode(csr)
	if name == "" || t.Events == nil {
		return reconcile.Result{}, nil
	}
	node := &corev1.Node{}
	if err := t.nodes.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.CreationTimestamp.Before(&csr.CreationTimestamp) { // otherwise, the node has just joined with it
		t.Events.Eventf(node, csr, corev1.EventTypeWarning, "NameTaken", "Issue",
			"%s got a certificate of this node for another key (request %s). If the host did not join again, another machine acts as this node",
			csr.Spec.Username, csr.Name)
	}
	return reconcile.Result{}, nil
}

// takenNode returns the node whose name a request is for, if the requester is
// not the node itself.
func takenNode(csr *certificatesv1.CertificateSigningRequest) string {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return ""
	}
	parsed, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil || parsed.Subject.CommonName == csr.Spec.Username {
		return ""
	}
	name, isNode := strings.CutPrefix(parsed.Subject.CommonName, nodeid.UserPrefix)
	if !isNode {
		return ""
	}
	return name
}
