package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"etl/stream"
)

// scope names what the instruments belong to.
const scope = "etl"

// export makes the providers: Prometheus always, OTLP when a variable asks for it.
func (t *Telemetry) export(ctx context.Context) error {
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "etl"), attribute.String("service.version", t.o.Version),
		attribute.String("etl.pipeline", t.o.Pipeline)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return badExporter("describe this process", err)
	}
	if err := t.exportMetrics(ctx, res); err != nil {
		return err
	}
	return t.exportTraces(ctx, res)
}

func (t *Telemetry) exportMetrics(ctx context.Context, res *resource.Resource) error {
	prom, err := prometheus.New(prometheus.WithRegisterer(t.registry), prometheus.WithoutScopeInfo(), prometheus.WithoutTargetInfo(),
		prometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return badExporter("make Prometheus exporter", err)
	}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	opts := []metric.Option{metric.WithResource(res), metric.WithReader(prom)}
	if t.wanted("METRICS") {
		r, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return badExporter("make metrics exporter", err)
		}
		opts = append(opts, metric.WithReader(r))
	}
	provider := metric.NewMeterProvider(opts...)
	t.shutdown = append(t.shutdown, provider.Shutdown)
	meter := provider.Meter(scope)
	if t.metrics, err = newMetrics(meter, t.o.Pipeline); err != nil {
		return fmt.Errorf("make instruments: %w", err)
	}
	return errors.Join(t.register(meter), t.registerKafka(meter))
}

func (t *Telemetry) exportTraces(ctx context.Context, res *resource.Resource) error {
	opts := []trace.TracerProviderOption{trace.WithResource(res)}
	if t.wanted("TRACES") {
		e, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return badExporter("make trace exporter", err)
		}
		opts = append(opts, trace.WithBatcher(e))
	} else {
		opts = append(opts, trace.WithSampler(trace.NeverSample()))
	}
	provider := trace.NewTracerProvider(opts...)
	t.shutdown = append(t.shutdown, provider.Shutdown)
	t.tracer = provider.Tracer(scope)
	return nil
}

// wanted reports whether a standard variable asks for a signal to be exported. The
// libraries would export to localhost when none is set: here off is the default.
func (t *Telemetry) wanted(signal string) bool {
	if strings.EqualFold(t.o.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch t.o.Getenv("OTEL_" + signal + "_EXPORTER") {
	case "none":
		return false
	case "":
		return t.o.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || t.o.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	return true
}

func badExporter(op string, err error) error {
	return stream.Errorf(stream.BadConfig, "telemetry.exporter", op, "", "%w", err).WithFix("check the OTEL_ environment variables, or set OTEL_SDK_DISABLED=true")
}
