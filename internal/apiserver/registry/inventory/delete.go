package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
)

// auditDeleted is the audit annotation with the number of records that a request has
// deleted.
const auditDeleted = inventoryv1alpha1.GroupName + "/deleted"

// isForced reports whether records of certificates that have not ended are deleted, too:
// with a grace period of 0, which clients set on purpose alone.
func isForced(options *metav1.DeleteOptions) bool {
	return options != nil && options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0
}

// refused is the error if records of certificates that have not ended would be deleted.
func (s *storage) refused(name, what string) error {
	return apierrors.NewConflict(s.group(), name,
		fmt.Errorf("%s: records of certificates that have not ended are only deleted with a grace period of 0, as with kubectl delete --grace-period=0 --force", what))
}

// Delete implements rest.GracefulDeleter.
func (s *storage) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	record, err := s.get(ctx, s.deletable, name)
	if err != nil {
		return nil, false, err
	}
	if err := s.mayDelete(ctx, record, validate, options); err != nil {
		return nil, false, err
	}
	if !record.Certificate.NotAfter.Before(&metav1.Time{Time: s.records.Now()}) && !isForced(options) {
		return nil, false, s.refused(name, "the certificate ends at "+record.Certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	if isDryRun(options) {
		return s.show(record), true, nil
	}
	_, err = s.delete(ctx, []inventoryv1alpha1.IssuedCertificate{*record})
	return s.show(record), true, err
}

func isDryRun(options *metav1.DeleteOptions) bool {
	return options != nil && slices.Contains(options.DryRun, metav1.DryRunAll)
}

// mayDelete checks the preconditions of a client, and admission.
func (s *storage) mayDelete(ctx context.Context, record *inventoryv1alpha1.IssuedCertificate, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) error {
	if options != nil && options.Preconditions != nil {
		if uid := options.Preconditions.UID; uid != nil && *uid != record.UID {
			return apierrors.NewConflict(s.group(), record.Name,
				fmt.Errorf("the UID in the precondition is %s, but the record has %s", *uid, record.UID))
		}
	}
	if validate == nil {
		return nil
	}
	return validate(ctx, s.show(record))
}

// DeleteCollection implements rest.CollectionDeleter. Records of certificates that have not
// ended are left, with an error, unless the deletion is forced.
func (s *storage) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, selected *internalversion.ListOptions) (runtime.Object, error) {
	query := inventory.Query{Of: s.deletable, Limit: maxPage}
	if selected != nil {
		query.Labels, query.Fields = selected.LabelSelector, selected.FieldSelector
	}
	left, now := 0, metav1.NewTime(s.records.Now())
	for {
		page, err := s.records.Find(ctx, &query)
		if err != nil {
			return nil, explain(err)
		}
		var doomed []inventoryv1alpha1.IssuedCertificate
		kept := 0
		for i := range page.Items {
			record := &page.Items[i]
			if !record.Certificate.NotAfter.Before(&now) && !isForced(options) {
				kept++
				continue
			}
			if err := s.mayDelete(ctx, record, validate, nil); err != nil {
				return nil, err
			}
			doomed = append(doomed, *record)
		}
		if !isDryRun(options) {
			deleted, err := s.delete(ctx, doomed)
			if err != nil {
				return nil, err
			}
			if deleted > 0 {
				continue // the rest of the page has moved
			}
		}
		left += kept
		if query.Continue = page.Continue; query.Continue == "" {
			break
		}
	}
	if left > 0 {
		return nil, s.refused("", fmt.Sprintf("%d certificates have not ended", left))
	}
	return nil, nil
}

// delete deletes records, and writes the user to the log and the audit log.
func (s *storage) delete(ctx context.Context, doomed []inventoryv1alpha1.IssuedCertificate) (deleted int, err error) {
	if len(doomed) == 0 {
		return 0, nil
	}
	deleted, err = s.records.Delete(ctx, doomed)
	who := ""
	if user, ok := apirequest.UserFrom(ctx); ok {
		who = user.GetName()
	}
	klog.FromContext(ctx).Info("Deleted records of the inventory", "kind", s.kind, "user", who, "deleted", deleted, "first", doomed[0].Name,
		"serialNumber", doomed[0].Certificate.SerialNumber, "requester", doomed[0].Request.Requester)
	audit.AddAuditAnnotation(ctx, auditDeleted, strconv.Itoa(deleted))
	if err != nil {
		return deleted, explain(err)
	}
	return deleted, nil
}
