package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

func addConversions(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		func(s *runtime.Scheme) error { return convertWith(s, toCore) },
		func(s *runtime.Scheme) error { return convertWith(s, fromCore) },
		func(s *runtime.Scheme) error {
			return convertWith(s, func(in *eventsv1.EventList, out *corev1.EventList) {
				out.ListMeta = in.ListMeta
				out.Items = convertItems(in.Items, toCore)
			})
		},
		func(s *runtime.Scheme) error {
			return convertWith(s, func(in *corev1.EventList, out *eventsv1.EventList) {
				out.ListMeta = in.ListMeta
				out.Items = convertItems(in.Items, fromCore)
			})
		},
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

func convertWith[In, Out any](scheme *runtime.Scheme, convert func(*In, *Out)) error {
	return scheme.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
		convert(in.(*In), out.(*Out))
		return nil
	})
}

func convertItems[In, Out any](in []In, convert func(*In, *Out)) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i := range in {
		convert(&in[i], &out[i])
	}
	return out
}

func toCore(in *eventsv1.Event, out *corev1.Event) {
	out.ObjectMeta = in.ObjectMeta
	out.InvolvedObject = in.Regarding
	out.Related = in.Related
	out.Reason, out.Action, out.Message, out.Type = in.Reason, in.Action, in.Note, in.Type
	out.EventTime = in.EventTime
	out.ReportingController, out.ReportingInstance = in.ReportingController, in.ReportingInstance
	out.Source = in.DeprecatedSource
	out.FirstTimestamp, out.LastTimestamp = in.DeprecatedFirstTimestamp, in.DeprecatedLastTimestamp
	out.Count = in.DeprecatedCount
	out.Series = nil
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

func fromCore(in *corev1.Event, out *eventsv1.Event) {
	out.ObjectMeta = in.ObjectMeta
	out.Regarding = in.InvolvedObject
	out.Related = in.Related
	out.Reason, out.Action, out.Note, out.Type = in.Reason, in.Action, in.Message, in.Type
	out.EventTime = in.EventTime
	out.ReportingController, out.ReportingInstance = in.ReportingController, in.ReportingInstance
	out.DeprecatedSource = in.Source
	out.DeprecatedFirstTimestamp, out.DeprecatedLastTimestamp = in.FirstTimestamp, in.LastTimestamp
	out.DeprecatedCount = in.Count
	out.Series = nil
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}
