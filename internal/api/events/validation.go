package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
)

// Limits of an event's texts, in bytes.
const (
	maxNote  = 1024
	maxWords = 128
)

// Validate returns the errors of a new event that a client sent as version.
func Validate(event *corev1.Event, version schema.GroupVersion) field.ErrorList {
	if version != eventsv1.SchemeGroupVersion {
		return validateAnyway(event, version)
	}
	errs := validateAnyway(event, version)
	errs = append(errs, metadata.Validate(&event.ObjectMeta, true, metadata.AnyName, field.NewPath("metadata"))...)
	errs = append(errs, validateSeries(event)...)
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+event.Type))
	}
	return append(errs, validateDeprecated(event)...)
}

// ValidateUpdate returns the errors of replacing old by event. In an event of
// the new group, only the number of occurrences can change.
func ValidateUpdate(event, old *corev1.Event, version schema.GroupVersion) field.ErrorList {
	if version != eventsv1.SchemeGroupVersion {
		return validateAnyway(event, version)
	}
	errs := validation.ValidateObjectMetaUpdate(&event.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateSeries(event)...)
	for _, fixed := range []struct {
		name    string
		is, was any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject},
		{"reason", event.Reason, old.Reason},
		{"message", event.Message, old.Message},
		{"source", event.Source, old.Source},
		{"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count},
		{"type", event.Type, old.Type},
		{"eventTime", event.EventTime, old.EventTime},
		{"action", event.Action, old.Action},
		{"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, validation.ValidateImmutableField(fixed.is, fixed.was, field.NewPath(fixed.name))...)
	}
	return errs
}

// validateAnyway checks the rules for all events. An event with an eventTime is of the new
// kind, regardless of its API group.
func validateAnyway(event *corev1.Event, version schema.GroupVersion) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.NameIsDNSSubdomain(event.Namespace, false) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), event.Namespace, problem))
	}
	if !isAboutItsNamespace(event) {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), event.InvolvedObject.Namespace, "does not match event.namespace"))
	}
	if event.EventTime.IsZero() {
		return errs
	}
	controller := field.NewPath("reportingController")
	if version == corev1.SchemeGroupVersion {
		controller = field.NewPath("reportingComponent")
	}
	if event.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, problem := range content.IsLabelKey(event.ReportingController) {
		errs = append(errs, field.Invalid(controller, event.ReportingController, problem))
	}
	errs = append(errs, validateWords(event.ReportingInstance, field.NewPath("reportingInstance"))...)
	errs = append(errs, validateWords(event.Action, field.NewPath("action"))...)
	errs = append(errs, validateWords(event.Reason, field.NewPath("reason"))...)
	if len(event.Message) > maxNote {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", "can have at most 1024 characters"))
	}
	return errs
}

// isAboutItsNamespace reports whether an event is in the namespace of its object. Events
// about cluster-scoped objects are in a shared namespace.
func isAboutItsNamespace(event *corev1.Event) bool {
	about, in := event.InvolvedObject.Namespace, event.Namespace
	switch {
	case about == in:
		return true
	case event.EventTime.IsZero():
		return about == "" && in == metav1.NamespaceDefault
	default: // the new kind may be about an object in another namespace
		return about != "" || in == metav1.NamespaceDefault || in == metav1.NamespaceSystem
	}
}

func validateWords(words string, fldPath *field.Path) field.ErrorList {
	switch {
	case words == "":
		return field.ErrorList{field.Required(fldPath, "")}
	case len(words) > maxWords:
		return field.ErrorList{field.Invalid(fldPath, "", "can have at most 128 characters")}
	default:
		return nil
	}
}

func validateSeries(event *corev1.Event) field.ErrorList {
	if event.Series == nil {
		return nil
	}
	var errs field.ErrorList
	if event.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series", "count"), "", "should be at least 2"))
	}
	if event.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series", "lastObservedTime"), ""))
	}
	return errs
}

// validateDeprecated refuses fields of the older kind, which are only for older
// clients.
func validateDeprecated(event *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	for _, unset := range []struct {
		name string
		is   bool
	}{
		{"firstTimestamp", event.FirstTimestamp.IsZero()},
		{"lastTimestamp", event.LastTimestamp.IsZero()},
		{"count", event.Count == 0},
		{"source", event.Source == corev1.EventSource{}},
	} {
		if !unset.is {
			errs = append(errs, field.Invalid(field.NewPath(unset.name), "", "needs to be unset"))
		}
	}
	return errs
}
