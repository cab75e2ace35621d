BEGIN TRANSACTION;
CREATE TABLE clusters (
    name             text primary key not null,
    fence            integer not null,
    open             integer,
    cancel_requested integer not null default 0,
    delete_requested integer not null default 0,
    document         text not null
) strict;
INSERT INTO "clusters" VALUES('farm',2,2,0,0,'{"created_at":1795571429272,"last_index":{"workers":3},"left":[],"name":"farm","reasons":[],"specification":{"groups":{"workers":{"addresses":["ipv4"],"count":3,"dynamic_address":false,"image":"ubuntu_noble","types":["DEV1-S"]}},"name":"farm","server_deadline":"10m","wait_deadline":"5m","zone":"fr-par-1"},"state":"scaling","updated_at":1795571437983}');
CREATE TABLE events (
    sequence         integer primary key autoincrement,
    cluster          text not null,
    operation        integer not null,
    at               integer not null,
    what             text not null
) strict;
INSERT INTO "events" VALUES(1,'farm',1,1795571429281,'{"event":"opened","kind":"create","counts":{"workers":{"before":0,"wanted":2}}}');
INSERT INTO "events" VALUES(2,'farm',1,1795571429327,'{"event":"step-began","stage":"validate","step":"ask Scaleway","total":1}');
INSERT INTO "events" VALUES(3,'farm',1,1795571429683,'{"event":"node-done","stage":"validate","step":"ask Scaleway","node":"workers"}');
INSERT INTO "events" VALUES(4,'farm',1,1795571429703,'{"event":"step-began","stage":"servers","step":"create servers","total":2}');
INSERT INTO "events" VALUES(5,'farm',1,1795571431148,'{"event":"node-done","stage":"servers","step":"create servers","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(6,'farm',1,1795571431263,'{"event":"node-done","stage":"servers","step":"create servers","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(7,'farm',1,1795571431278,'{"event":"step-began","stage":"wait","step":"wait for servers","total":2}');
INSERT INTO "events" VALUES(8,'farm',1,1795571431304,'{"event":"node-done","stage":"wait","step":"wait for servers","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(9,'farm',1,1795571431304,'{"event":"node-done","stage":"wait","step":"wait for servers","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(10,'farm',1,1795571431327,'{"event":"step-began","stage":"prepare","step":"look up addresses","total":2}');
INSERT INTO "events" VALUES(11,'farm',1,1795571431339,'{"event":"node-done","stage":"prepare","step":"look up addresses","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(12,'farm',1,1795571431339,'{"event":"node-done","stage":"prepare","step":"look up addresses","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(13,'farm',1,1795571431351,'{"event":"step-began","stage":"configure","step":"run the configure hook","total":2}');
INSERT INTO "events" VALUES(14,'farm',1,1795571431371,'{"event":"node-done","stage":"configure","step":"run the configure hook","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(15,'farm',1,1795571431371,'{"event":"node-done","stage":"configure","step":"run the configure hook","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(16,'farm',1,1795571431426,'{"event":"step-began","stage":"start","step":"run the start hook","total":2}');
INSERT INTO "events" VALUES(17,'farm',1,1795571431485,'{"event":"node-done","stage":"start","step":"run the start hook","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(18,'farm',1,1795571431485,'{"event":"node-done","stage":"start","step":"run the start hook","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(19,'farm',1,1795571431489,'{"event":"closed","state":"done","cluster":"active","reasons":[]}');
INSERT INTO "events" VALUES(20,'farm',2,1795571438038,'{"event":"opened","kind":"scale","counts":{"workers":{"before":2,"wanted":3}}}');
INSERT INTO "events" VALUES(21,'farm',2,1795571438055,'{"event":"step-began","stage":"validate","step":"look at the nodes","total":2}');
INSERT INTO "events" VALUES(22,'farm',2,1795571438070,'{"event":"node-done","stage":"validate","step":"look at the nodes","node":"farm-workers-1"}');
INSERT INTO "events" VALUES(23,'farm',2,1795571438070,'{"event":"node-done","stage":"validate","step":"look at the nodes","node":"farm-workers-2"}');
INSERT INTO "events" VALUES(24,'farm',2,1795571438072,'{"event":"step-began","stage":"validate","step":"ask Scaleway","total":1}');
INSERT INTO "events" VALUES(25,'farm',2,1795571438144,'{"event":"node-done","stage":"validate","step":"ask Scaleway","node":"workers"}');
INSERT INTO "events" VALUES(26,'farm',2,1795571438188,'{"event":"step-began","stage":"decommission","step":"run the decommission hook","total":0}');
INSERT INTO "events" VALUES(27,'farm',2,1795571438237,'{"event":"step-began","stage":"resize","step":"create servers","total":1}');
CREATE TABLE fences (last integer not null) strict;
INSERT INTO "fences" VALUES(2);
CREATE TABLE nodes (
    cluster          text not null,
    name             text not null,
    grouping         text not null,
    position         integer not null,
    document         text not null,
    primary key (cluster, name)
) strict, without rowid;
INSERT INTO "nodes" VALUES('farm','farm-workers-1','workers',1,'{"name":"farm-workers-1","group":"workers","index":1,"role":"staying","state":"running","creation":"farm-0nt3wsa3e71g","server":"dee5ddda-dab9-4a9b-b004-f499c17f0171","server_type":"DEV1-S","addresses":["198.18.207.246"],"private_addresses":[],"ssh_host_key":null,"decommission_began":false,"decommissioned":false,"configure_began":false,"configured":true,"started":true,"problem":null}');
INSERT INTO "nodes" VALUES('farm','farm-workers-2','workers',2,'{"name":"farm-workers-2","group":"workers","index":2,"role":"staying","state":"running","creation":"farm-0nt3wss56ens","server":"f9001f36-b22e-4eb8-8425-1b655b91ef50","server_type":"DEV1-S","addresses":["198.19.8.68"],"private_addresses":[],"ssh_host_key":null,"decommission_began":false,"decommissioned":false,"configure_began":false,"configured":true,"started":true,"problem":null}');
INSERT INTO "nodes" VALUES('farm','farm-workers-3','workers',3,'{"name":"farm-workers-3","group":"workers","index":3,"role":"made","state":"creating","creation":"farm-0nt3wvs5a349","server":null,"server_type":null,"addresses":[],"private_addresses":[],"ssh_host_key":null,"decommission_began":false,"decommissioned":false,"configure_began":false,"configured":false,"started":false,"problem":null}');
CREATE TABLE operations (
    cluster          text not null,
    number           integer not null,
    document         text not null,
    primary key (cluster, number)
) strict, without rowid;
INSERT INTO "operations" VALUES('farm',1,'{"number":1,"kind":"create","state":"done","stage":"start","runner":"3787-f9vh16wypc","policies":[{"component":"ea11729b002c4d2d88a8376480fbc00e22155d34b22547690d2c2d36e267078e","name":"windlass-guest-state-mapping","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"state-mapping","version":"0.1.0"},{"component":"2dc7c2d60b498fba782bf0ee81428695ca60ed1505243b3708157a1eb4e6261b","name":"windlass-guest-retry","settings":"8b4b0b03d28a646b1fcfb3378eed7f7428d0375f1cef886d2b29a51215d91e89","slot":"retry","version":"0.1.0"},{"component":"2dc7c2d60b498fba782bf0ee81428695ca60ed1505243b3708157a1eb4e6261b","name":"windlass-guest-retry","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"retry","version":"0.1.0"},{"component":"170265246e2ada654c93ebe39bffb13d8f5b8a3fd6efa09a68878e6cbd24608e","name":"windlass-guest-rollback","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"rollback","version":"0.1.0"},{"component":"f29d53b33946828ee5022d58c9737b99043072db796890b057acca4213d7a80c","name":"windlass-guest-release","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"release","version":"0.1.0"},{"component":"0768f1da43450b63e8592b24c199018182993b79f91916dd221b24a5955453dd","name":"windlass-guest-provisioning","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"provisioning","version":"0.1.0"},{"component":"773ff5ef6633426d77fde44a7a8a142ab4f26c097b2aa501ffb1cb32d1b8beb2","name":"windlass-guest-placement","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"placement","version":"0.1.0"}],"counts":{"workers":{"before":0,"wanted":2}},"force":false,"recovery":null,"reasons":[],"began_at":1795571429272,"ended_at":1795571431489}');
INSERT INTO "operations" VALUES('farm',2,'{"number":2,"kind":"scale","state":"open","stage":"resize","runner":"4065-gwteekz3fy","policies":[{"component":"ea11729b002c4d2d88a8376480fbc00e22155d34b22547690d2c2d36e267078e","name":"windlass-guest-state-mapping","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"state-mapping","version":"0.1.0"},{"component":"2dc7c2d60b498fba782bf0ee81428695ca60ed1505243b3708157a1eb4e6261b","name":"windlass-guest-retry","settings":"8b4b0b03d28a646b1fcfb3378eed7f7428d0375f1cef886d2b29a51215d91e89","slot":"retry","version":"0.1.0"},{"component":"2dc7c2d60b498fba782bf0ee81428695ca60ed1505243b3708157a1eb4e6261b","name":"windlass-guest-retry","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"retry","version":"0.1.0"},{"component":"170265246e2ada654c93ebe39bffb13d8f5b8a3fd6efa09a68878e6cbd24608e","name":"windlass-guest-rollback","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"rollback","version":"0.1.0"},{"component":"f29d53b33946828ee5022d58c9737b99043072db796890b057acca4213d7a80c","name":"windlass-guest-release","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"release","version":"0.1.0"},{"component":"0768f1da43450b63e8592b24c199018182993b79f91916dd221b24a5955453dd","name":"windlass-guest-provisioning","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"provisioning","version":"0.1.0"},{"component":"773ff5ef6633426d77fde44a7a8a142ab4f26c097b2aa501ffb1cb32d1b8beb2","name":"windlass-guest-placement","settings":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","slot":"placement","version":"0.1.0"}],"counts":{"workers":{"before":2,"wanted":3}},"force":false,"recovery":null,"reasons":[],"began_at":1795571437983,"ended_at":null}');
CREATE INDEX events_by_operation on events (cluster, operation, sequence);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',27);
COMMIT;
pragma user_version = 2;
