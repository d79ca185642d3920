package venafi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/policy/request"
)

const (
	// storeTimeout is how long storing an identifier may take, even while the
	// controller stops.
	storeTimeout = 10 * time.Second
	// maxConflicts limits the attempts to store it at a time.
	maxConflicts = 10
	// maxIdentifier is the longest identifier that is stored, in bytes.
	maxIdentifier = 4096
)

// errGone means that a request was deleted.
var errGone = errors.New("the request was deleted")

// current returns a request as the API has it now, past caches: another attempt
// may have ordered its certificate already.
func (b *backend) current(ctx context.Context, req issuing.Request) (client.Object, error) {
	var object client.Object = &certificatesv1.CertificateSigningRequest{}
	if req.Kind == request.CertificateRequests {
		object = &cmv1.CertificateRequest{}
	}
	err := b.Client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("reading the request: %w", err)
	case string(object.GetUID()) != req.UID:
		return nil, errGone
	}
	return object, nil
}

// store writes the identifier of a certificate into an annotation of its request, before
// anything else is written: without it, the certificate is never retrieved, and the next
// attempt orders another one. It returns the identifier in the request afterwards, which can
// come from another attempt.
func (b *backend) store(ctx context.Context, on client.Object, req issuing.Request, annotation, id string) (string, error) {
	if len(id) > maxIdentifier {
		return "", fmt.Errorf("the server's identifier for the request has %d bytes, more than %d", len(id), maxIdentifier)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var err error
	for range maxConflicts {
		if there := on.GetAnnotations()[annotation]; there != "" {
			return there, nil
		}
		var patch []byte
		patch, err = json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": on.GetUID(), "resourceVersion": on.GetResourceVersion(), "annotations": map[string]string{annotation: id},
		}})
		if err != nil {
			return "", err
		}
		if err = b.Client.Patch(ctx, on, client.RawPatch(types.MergePatchType, patch)); err == nil {
			return id, nil
		}
		latest, reason := b.current(ctx, req)
		switch {
		case reason != nil:
			return "", errors.Join(err, reason)
		case !apierrors.IsConflict(err) && latest.GetAnnotations()[annotation] == "":
			return "", fmt.Errorf("writing the annotation %s: %w", annotation, err)
		}
		on = latest
	}
	return "", fmt.Errorf("writing the annotation %s: %w", annotation, err)
}
