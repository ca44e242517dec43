"""The types of trigger that KEDA has, up to release 2.20. Pure knowledge; no rules stand here.

Source: the list of scalers on keda.sh.
"""

from __future__ import annotations


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


TRIGGERS = _words(
    """
    activemq apache-kafka arangodb artemis-queue aws-cloudwatch aws-dynamodb aws-dynamodb-streams aws-kinesis-stream
    aws-sqs-queue azure-app-insights azure-blob azure-data-explorer azure-eventhub azure-log-analytics azure-monitor
    azure-pipelines azure-queue azure-servicebus beanstalkd cassandra couchdb cpu cron datadog dynatrace elasticsearch
    etcd external external-push forgejo-runner gcp-cloudtasks gcp-pubsub gcp-stackdriver gcp-storage github-runner
    graphite huawei-cloudeye ibmmq influxdb kafka kubernetes-resource kubernetes-workload liiklus loki memory
    metrics-api mongodb mssql mysql nats-jetstream new-relic nsq openstack-metric openstack-swift postgresql
    predictkube prometheus pulsar rabbitmq redis redis-cluster redis-cluster-streams redis-sentinel
    redis-sentinel-streams redis-streams selenium-grid solace-direct-messaging solace-event-queue solarwinds solr
    splunk splunk-observability stan sumologic temporal
    """
)
"""Every one of them."""

WORDS = {
    ("rabbitmq", "mode"): _words(
        "QueueLength MessageRate DeliverGetRate PublishedToDeliveredRatio ExpectedQueueConsumptionTime Unknown"
    ),
    ("rabbitmq", "protocol"): _words("auto http amqp"),
    ("kafka", "offsetResetPolicy"): _words("latest earliest"),
    ("apache-kafka", "offsetResetPolicy"): _words("latest earliest"),
    ("prometheus", "authModes"): _words("basic bearer tls custom"),
    ("metrics-api", "authMode"): _words("apiKey basic tls bearer"),
}
"""Fields of triggers that hold one of a few words, or several with commas between them."""
